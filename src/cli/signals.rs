//! Ctrl-C: the first ends the run after the document at hand, the second at once.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A flag that SIGINT and SIGTERM set.
pub fn stop_flag() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    #[cfg(unix)]
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        use signal_hook::flag::{register, register_conditional_shutdown};

        let code = i32::from(super::exit::Exit::Interrupted.code());
        // In this order: the first signal finds the flag unset. Where neither can be registered, the signal ends the
        // process as it always does, which no step of a repair minds.
        let _ = register_conditional_shutdown(signal, code, Arc::clone(&stop))
            .and_then(|_| register(signal, Arc::clone(&stop)));
    }
    stop
}
