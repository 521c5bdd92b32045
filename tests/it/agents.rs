//! A session of each agent, made of what its tools returned and little else: a regression is written once, against these.
//!
//! The bytes are put together by hand, as each agent spells them, so that a test can say how a string is stored.

use unwedge::format::{self, Format, Framing};

mod build;

/// What agents never write and a repair must keep: each call has it.
pub const ODD: &str = r#""odd":{"slash":"a\/b","n":1E5,"small":0.000009,"twice":1,"twice":"2"}"#;

/// One part of what a tool returned.
#[derive(Debug, Clone)]
pub enum Part {
    /// A JSON string literal, as stored.
    Text(String),
    /// An image's base64.
    Image(String),
}

/// What a tool returned.
#[derive(Debug, Clone)]
pub struct Res {
    pub parts: Vec<Part>,
    /// As a list of blocks; else as a string, where the agent has both.
    pub list: bool,
}

impl Res {
    /// A text, as `JSON.stringify` writes it.
    pub fn text(text: &str) -> Self {
        Res::stored(&lit(text))
    }

    /// A text, as stored.
    pub fn stored(literal: &str) -> Self {
        Res { parts: vec![Part::Text(literal.to_owned())], list: false }
    }

    /// A list of blocks.
    pub fn list(parts: Vec<Part>) -> Self {
        Res { parts, list: true }
    }

    /// Its first text.
    fn first(&self) -> &str {
        let mut texts = self.parts.iter().filter_map(|p| if let Part::Text(t) = p { Some(&**t) } else { None });
        texts.next().unwrap_or("\"\"")
    }

    /// Its images, each put into a template.
    fn images(&self, template: &str) -> Vec<String> {
        let images = self.parts.iter().filter_map(|p| if let Part::Image(data) = p { Some(data) } else { None });
        images.map(|data| fill(template, &[data])).collect()
    }

    /// A string, or a list with each part put into a template.
    fn value(&self, text: &str, image: &str) -> String {
        if self.list { self.blocks(text, image) } else { self.first().to_owned() }
    }

    fn blocks(&self, text: &str, image: &str) -> String {
        let block = |part: &Part| match part {
            Part::Text(literal) => fill(text, &[literal]),
            Part::Image(data) => fill(image, &[data]),
        };
        format!("[{}]", self.parts.iter().map(block).collect::<Vec<_>>().join(","))
    }
}

/// A text as a literal.
pub fn lit(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

/// A session: for each of the assistant's messages, what its calls returned.
#[derive(Debug, Clone)]
pub struct Session {
    pub turns: Vec<Vec<Res>>,
    /// Whether each text is kept once more, where the agent does that.
    pub copies: bool,
    /// What the user says at each turn, as stored.
    pub said: String,
    /// How many messages of another agent stand before each result, where several agents write to one stream.
    pub beside: usize,
}

impl Session {
    pub fn new(turns: Vec<Vec<Res>>) -> Self {
        Session { turns, copies: false, said: "\"go on\"".to_owned(), beside: 0 }
    }

    pub fn with_copies(self) -> Self {
        Session { copies: true, ..self }
    }
}

/// What becomes of a byte order mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// The agent reads such a file.
    Kept,
    /// It refuses it, or takes it for empty.
    Refused,
    /// It passes over the first record.
    OneRecord,
}

/// How an agent keeps a session.
#[derive(Clone, Copy)]
pub struct Agent {
    /// What tests call it.
    pub label: &'static str,
    pub format: &'static str,
    pub path: &'static str,
    /// What stands around the records, where they are elements of one document.
    frame: Option<(&'static str, &'static str)>,
    pub mark: Mark,
    /// Whether a result may have several texts.
    pub lists: bool,
    /// The key of a result that is a string.
    pub key: &'static str,
    /// How often a text is sent again, whatever is asked for.
    pub echoes: usize,
    /// How often it is kept where [`Session::copies`] asks for it.
    pub copies: usize,
    build: fn(&Session) -> Vec<String>,
}

const LINES: Agent = Agent {
    label: "",
    format: "",
    path: "",
    frame: None,
    mark: Mark::Refused,
    lists: true,
    key: "content",
    echoes: 0,
    copies: 0,
    build: build::codex,
};

const AGENTS: [Agent; 11] = [
    Agent {
        label: "claude-code",
        format: "claude-code",
        path: ".claude/projects/-w/01a2b3c4-0000-4000-8000-000000000001.jsonl",
        mark: Mark::OneRecord,
        copies: 1,
        build: build::claude_code,
        ..LINES
    },
    Agent {
        label: "pi",
        format: "pi",
        path: ".pi/agent/sessions/--w--/2026-12-01T00-06-21-260Z_01a2b3c4-0000-4000-8000-000000000002.jsonl",
        copies: 1,
        build: build::pi,
        ..LINES
    },
    Agent {
        label: "codex",
        format: "codex",
        path: ".codex/sessions/2026/12/01/rollout-2026-12-01T00-05-15-01a2b3c4-0000-4000-8000-000000000003.jsonl",
        key: "output",
        copies: 1,
        build: build::codex,
        ..LINES
    },
    Agent {
        label: "gemini",
        format: "gemini",
        path: ".gemini/tmp/w/chats/session-2026-12-01T00-05-01a2b3c4.jsonl",
        key: "output",
        echoes: 1,
        copies: 1,
        build: build::gemini,
        ..LINES
    },
    Agent {
        label: "gemini-json",
        format: "gemini-json",
        path: ".gemini/tmp/w/chats/session-2026-12-01T00-06-01a2b3c5.json",
        frame: Some((
            r#"{"sessionId":"01a2b3c5","projectHash":"00ff","startTime":"2026-12-01","messages":["#,
            r#"],"lastUpdated":"2026-12-01"}"#,
        )),
        key: "output",
        echoes: 1,
        copies: 1,
        build: build::gemini_messages,
        ..LINES
    },
    Agent {
        label: "qwen",
        format: "qwen",
        path: ".qwen/projects/-w/chats/01a2b3c4-0000-4000-8000-000000000004.jsonl",
        // It trims each line, and to JavaScript a mark is a blank.
        mark: Mark::Kept,
        key: "output",
        copies: 1,
        build: build::qwen,
        ..LINES
    },
    Agent {
        label: "copilot",
        format: "copilot",
        path: ".copilot/session-state/01a2b3c4-0000-4000-8000-000000000005/events.jsonl",
        mark: Mark::OneRecord,
        lists: false,
        copies: 1,
        build: build::copilot,
        ..LINES
    },
    Agent {
        label: "cline (session)",
        format: "cline",
        path: ".cline/data/sessions/1796083200000_abc/1796083200000_abc.messages.json",
        frame: Some((r#"{"version":1,"sessionId":"1796083200000_abc","messages":["#, r#"],"system_prompt":"none"}"#)),
        build: build::cline,
        ..LINES
    },
    Agent {
        label: "cline (task)",
        format: "cline",
        path: "Code/User/globalStorage/rooveterinaryinc.roo-cline/tasks/1796083200001/api_conversation_history.json",
        frame: Some(("[", "]")),
        build: build::cline,
        ..LINES
    },
    Agent {
        label: "provider-log",
        format: "provider-log",
        path: "logs/request.json",
        frame: Some((r#"{"model":"m","stream":false,"max_output_tokens":1,"input":["#, r#"],"store":false}"#)),
        mark: Mark::Kept,
        key: "output",
        build: build::responses,
        ..LINES
    },
    Agent {
        label: "provider-log-lines",
        format: "provider-log-lines",
        path: "logs/requests.jsonl",
        mark: Mark::Kept,
        build: build::chat,
        ..LINES
    },
];

/// Those whose formats are registered.
pub fn agents() -> Vec<Agent> {
    AGENTS.into_iter().filter(|agent| format::named(agent.format).is_some()).collect()
}

#[test]
fn every_format_has_a_session() {
    // JP has its own tests: one document, base64, two copies.
    for name in format::FORMATS.iter().map(|f| f.about().name).filter(|name| *name != "jp") {
        let agent = AGENTS.iter().find(|agent| agent.format == name);
        let agent = agent.unwrap_or_else(|| panic!("{name}: no session in tests/it/agents.rs"));
        assert_eq!(agent.is_lines(), agent.of().framing() == Framing::Lines, "{name}");
    }
}

impl Agent {
    pub fn of(&self) -> &'static dyn Format {
        format::named(self.format).unwrap()
    }

    pub fn is_lines(&self) -> bool {
        self.frame.is_none()
    }

    pub fn records(&self, session: &Session) -> Vec<String> {
        (self.build)(session)
    }

    /// Records as a file, each with this newline.
    pub fn file(&self, records: &[String], newline: &str, ended: bool) -> Vec<u8> {
        let mut text = match self.frame {
            None => records.join(newline),
            Some((open, close)) => {
                let records: Vec<String> = records.iter().map(|r| format!("{newline}  {r}")).collect();
                format!("{open}{}{newline}{close}", records.join(","))
            }
        };
        if ended {
            text.push_str(newline);
        }
        text.into_bytes()
    }

    pub fn bytes(&self, session: &Session) -> Vec<u8> {
        self.file(&self.records(session), "\n", true)
    }
}

/// Puts values where `$` stands.
fn fill(template: &str, values: &[&str]) -> String {
    let mut pieces = template.split('$');
    let mut out = pieces.next().unwrap().to_owned();
    let mut values = values.iter();
    for piece in pieces {
        out.push_str(values.next().expect("a value for each place"));
        out.push_str(piece);
    }
    assert!(values.next().is_none(), "{template}: too many values");
    out
}
