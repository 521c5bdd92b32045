//! Independent pieces of work on several threads, their results in order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

/// Does `work(0..count)` on `jobs` threads (0: as many as there are processors) and gives each result to `take`, in order,
/// on this thread.
pub fn in_order<T: Send>(jobs: usize, count: usize, work: impl Fn(usize) -> T + Sync, mut take: impl FnMut(usize, T)) {
    let jobs = if jobs == 0 { std::thread::available_parallelism().map_or(1, usize::from) } else { jobs };
    if jobs.min(count) <= 1 {
        for index in 0..count {
            take(index, work(index));
        }
        return;
    }
    let next = AtomicUsize::new(0);
    let (sender, results) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..jobs.min(count) {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= count || sender.send((index, work(index))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut early = BTreeMap::new();
        let mut due = 0;
        for (index, result) in results {
            early.insert(index, result);
            while let Some(result) = early.remove(&due) {
                take(due, result);
                due += 1;
            }
        }
    });
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_come_in_order() {
        for jobs in [0, 1, 2, 7] {
            let mut seen = Vec::new();
            super::in_order(
                jobs,
                500,
                |i| {
                    if i % 3 == 0 {
                        std::thread::yield_now()
                    } else {
                        std::hint::black_box(i);
                    }
                },
                |i, ()| seen.push(i),
            );
            assert_eq!(seen, (0..500).collect::<Vec<_>>());
        }
        super::in_order(2, 0, |i| i, |_, _| unreachable!());
    }
}
