//! Which end of a text is worth keeping, by what the tool does: data, not code.
//!
//! RFD D24 keeps the head of everything, and that is the default. But a build says why it failed in its last lines, and a
//! test runner sums up at the end; a file and a list of matches are read from the top.

#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects, reason = "numbers from files and journals"))]

use super::limits::Keep;

/// What a tool does, as far as that tells which end of its output matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trade {
    /// Runs commands, builds and tests: the end says how it went.
    Shell,
    /// Reads files and pages: they begin at the top.
    Reader,
    /// Searches and lists: the best or first matches stand at the top.
    Searcher,
}

/// Tools whose trade is known: the format's name (`*`: any agent's), the tool's name as the agent spells it, its trade.
///
/// From the agents' own tool lists, as the format modules name their sources; a name that only one agent uses stands under it.
pub const TOOLS: &[(&str, &str, Trade)] = &[
    // Claude Code.
    ("claude-code", "Bash", Trade::Shell),
    ("claude-code", "BashOutput", Trade::Shell),
    ("claude-code", "TaskOutput", Trade::Shell),
    ("claude-code", "Read", Trade::Reader),
    ("claude-code", "NotebookRead", Trade::Reader),
    ("claude-code", "WebFetch", Trade::Reader),
    ("claude-code", "Grep", Trade::Searcher),
    ("claude-code", "Glob", Trade::Searcher),
    ("claude-code", "LS", Trade::Searcher),
    ("claude-code", "WebSearch", Trade::Searcher),
    ("claude-code", "ToolSearch", Trade::Searcher),
    // pi.
    ("pi", "bash", Trade::Shell),
    ("pi", "powershell", Trade::Shell),
    ("pi", "read", Trade::Reader),
    ("pi", "grep", Trade::Searcher),
    ("pi", "find", Trade::Searcher),
    ("pi", "ls", Trade::Searcher),
    // Codex.
    ("codex", "shell", Trade::Shell),
    ("codex", "shell_command", Trade::Shell),
    ("codex", "local_shell", Trade::Shell),
    ("codex", "container.exec", Trade::Shell),
    ("codex", "exec_command", Trade::Shell),
    ("codex", "write_stdin", Trade::Shell),
    ("codex", "unified_exec", Trade::Shell),
    ("codex", "read_file", Trade::Reader),
    ("codex", "grep_files", Trade::Searcher),
    ("codex", "list_dir", Trade::Searcher),
    // Gemini CLI and Qwen Code share their names.
    ("*", "run_shell_command", Trade::Shell),
    ("*", "read_file", Trade::Reader),
    ("*", "read_many_files", Trade::Reader),
    ("*", "web_fetch", Trade::Reader),
    ("*", "search_file_content", Trade::Searcher),
    ("*", "grep_search", Trade::Searcher),
    ("*", "glob", Trade::Searcher),
    ("*", "list_directory", Trade::Searcher),
    ("*", "google_web_search", Trade::Searcher),
    // Copilot CLI.
    ("copilot", "bash", Trade::Shell),
    ("copilot", "read_bash", Trade::Shell),
    ("copilot", "write_bash", Trade::Shell),
    ("copilot", "powershell", Trade::Shell),
    ("copilot", "view", Trade::Reader),
    ("copilot", "grep", Trade::Searcher),
    ("copilot", "rg", Trade::Searcher),
    // Cline, Roo Code, Kilo Code.
    ("cline", "execute_command", Trade::Shell),
    ("cline", "search_files", Trade::Searcher),
    ("cline", "list_files", Trade::Searcher),
    ("cline", "list_code_definition_names", Trade::Searcher),
    ("cline", "codebase_search", Trade::Searcher),
    // JP's own workspaces.
    ("jp", "cargo_check", Trade::Shell),
    ("jp", "cargo_test", Trade::Shell),
    ("jp", "cargo_expand", Trade::Reader),
    ("jp", "fs_read_file", Trade::Reader),
    ("jp", "fs_grep_files", Trade::Searcher),
    ("jp", "fs_list_files", Trade::Searcher),
    ("jp", "github_code_search", Trade::Searcher),
];

/// What a policy does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Its name, as `--policy` takes it.
    pub name: &'static str,
    /// In one sentence, for help.
    pub about: &'static str,
    /// What it keeps of a response that its tool reported as a failure; `None`: as of any other.
    pub errors: Option<Keep>,
    /// What it keeps by trade.
    pub trades: &'static [(Trade, Keep)],
    /// What it keeps of everything else.
    pub others: Keep,
    /// The most a single response may have.
    pub most: Option<Share>,
}

/// The most a single response may have, as a share of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The window's tokens are divided by this …
    pub divisor: u64,
    /// … and the result multiplied by this makes bytes.
    pub bytes_each: u64,
    /// Never less than so many bytes.
    pub least: u64,
    /// Bytes where the window is not known.
    pub unknown: u64,
}

impl Share {
    /// The most bytes of one response, for a window of so many tokens.
    #[must_use]
    pub fn bytes(&self, window: Option<u64>) -> u64 {
        let share = |tokens: u64| {
            tokens.checked_div(self.divisor).unwrap_or(tokens).saturating_mul(self.bytes_each).max(self.least)
        };
        window.filter(|tokens| *tokens > 0).map_or(self.unknown, share)
    }
}

/// The policies there are. The first is the default.
pub const POLICIES: &[Policy] = &[
    Policy {
        name: "d24",
        about: "the head of everything, as RFD D24 has it",
        errors: None,
        trades: &[],
        others: Keep::Head,
        most: None,
    },
    Policy {
        name: "agent",
        about: "shells and test runners keep the tail, readers and searchers the head, errors the tail, unknown tools both ends",
        errors: Some(Keep::Tail),
        trades: &[(Trade::Shell, Keep::Tail), (Trade::Reader, Keep::Head), (Trade::Searcher, Keep::Head)],
        others: Keep::Both,
        most: None,
    },
    Policy {
        name: "coder",
        about: "both ends, and no response over a third of the window (at least 16 KB; 64 KB where the window is not known)",
        errors: None,
        trades: &[],
        others: Keep::Both,
        // A third of the tokens, at three bytes a token.
        most: Some(Share { divisor: 3, bytes_each: 3, least: 16 * 1024, unknown: 64 * 1024 }),
    },
];

impl Policy {
    /// The default.
    #[allow(clippy::indexing_slicing, reason = "evaluated when it is compiled")]
    pub const D24: &'static Policy = &POLICIES[0];

    /// The policy of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Policy> {
        POLICIES.iter().find(|policy| policy.name == name)
    }

    /// Which end it keeps of a response: the agent's format, the tool where it is known, whether the tool said it failed.
    #[must_use]
    pub fn keep(&self, agent: &str, tool: Option<&str>, failed: bool) -> Keep {
        if let Some(keep) = self.errors.filter(|_| failed) {
            return keep;
        }
        let trade = tool.and_then(|tool| trade(agent, tool));
        let kept = self.trades.iter().find(|(its, _)| Some(*its) == trade);
        kept.map_or(self.others, |(_, keep)| *keep)
    }
}

/// A tool's trade: as its own agent's, else as anybody's.
fn trade(agent: &str, tool: &str) -> Option<Trade> {
    let of = |whose: &str| TOOLS.iter().find(|(agent, name, _)| *agent == whose && *name == tool);
    of(agent).or_else(|| of("*")).map(|(_, _, trade)| *trade)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coder_holds_a_response_to_a_third_of_the_window() {
        let most = Policy::named("coder").unwrap().most.unwrap();
        let budgets = [Some(0), Some(1000), Some(128_000), Some(200_000), Some(1_000_000), None];
        assert_eq!(budgets.map(|window| most.bytes(window)), [65_536, 16_384, 127_998, 199_998, 999_999, 65_536]);
    }

    #[test]
    fn coder_keeps_both_ends_whatever_the_tool_and_its_failure() {
        let coder = Policy::named("coder").unwrap();
        assert_eq!(coder.keep("claude-code", Some("Read"), false), Keep::Both);
        assert_eq!(coder.keep("claude-code", Some("Bash"), true), Keep::Both);
    }

    #[test]
    fn an_agent_keeps_the_end_that_matters() {
        let agent = Policy::named("agent").unwrap();
        let keep = |format, tool, failed| agent.keep(format, tool, failed);
        assert_eq!(keep("claude-code", Some("Bash"), false), Keep::Tail);
        assert_eq!(keep("claude-code", Some("Read"), false), Keep::Head);
        assert_eq!(keep("claude-code", Some("Read"), true), Keep::Tail, "an error's end, whoever made it");
        assert_eq!(keep("claude-code", Some("mcp__it__query"), false), Keep::Both);
        assert_eq!(keep("claude-code", None, false), Keep::Both);
        assert_eq!(keep("qwen", Some("read_file"), false), Keep::Head, "a name that several agents share");
        assert_eq!(keep("codex", Some("Bash"), false), Keep::Both, "another agent's name says nothing");
    }

    #[test]
    fn the_default_is_the_rfd() {
        assert_eq!((Policy::D24.name, Policy::named("none")), ("d24", None));
        for (agent, tool, _) in TOOLS {
            assert_eq!(Policy::D24.keep(agent, Some(tool), true), Keep::Head);
        }
    }

    #[test]
    fn the_table_names_no_tool_twice() {
        for (i, (agent, tool, _)) in TOOLS.iter().enumerate() {
            assert!(!TOOLS[i + 1..].iter().any(|(a, t, _)| (a, t) == (agent, tool)), "{agent} {tool}");
            assert!(*agent == "*" || crate::format::named(agent).is_some(), "{agent}");
        }
    }
}
