//! The items of the Responses interface: calls, and outputs that name them.

use super::messages::{Said, Walk};
use crate::format::parts::owned;
use crate::text::json::{Kind, Node};

impl Walk<'_> {
    /// Takes an item by its type.
    pub fn item(&mut self, item: Node<'_>, kind: &str) {
        if let Some(tool) = kind.strip_suffix("_call") {
            return self.call_item(item, tool);
        }
        self.in_run = false;
        if kind.ends_with("_call_output") { self.output(item, kind) } else { self.ends_own() }
    }

    /// One of a run of calls. An MCP call is its own response: the provider made it, and put the output beside the arguments.
    fn call_item(&mut self, item: Node<'_>, kind: &str) {
        if !std::mem::replace(&mut self.in_run, true) {
            self.begin();
        }
        let tool = owned(item, "name").unwrap_or_else(|| kind.to_owned());
        let (call_id, id) = (owned(item, "call_id"), owned(item, "id"));
        // The output of a local shell call names the item rather than the call.
        if kind == "local_shell" && call_id.is_some() && id.is_some() {
            self.call(id.clone(), Some(tool.clone()));
        }
        let id = call_id.or(id);
        self.call(id.clone(), Some(tool.clone()));
        let output = item.get("output").filter(|o| kind == "mcp" && o.kind() == Kind::String);
        if let Some(output) = output {
            let is_error = item.get("error").map(|e| e.kind() != Kind::Null);
            let parts = self.taker.texts(output);
            self.response(Said { id, tool: Some(tool), is_error, parts });
        }
    }

    fn output(&mut self, item: Node<'_>, kind: &str) {
        let id = owned(item, "call_id").or_else(|| owned(item, "id"));
        let mut said = Said { id, ..Said::default() };
        match item.get("output") {
            Some(output) if output.kind() == Kind::Object && kind == "computer_call_output" => {
                self.taker.opaque(output, &mut said.parts);
            }
            Some(output) if kind == "shell_call_output" => {
                for command in output.items() {
                    let texts = command.entries().filter(|(key, _)| key.is("stdout") || key.is("stderr"));
                    let texts = texts.map(|(_, text)| text).filter(|text| text.kind() == Kind::String);
                    texts.for_each(|text| self.taker.text(text, &mut said.parts));
                }
            }
            Some(output) if !self.taker.content(output, &mut said.parts) => {
                self.taker.broken(output, format!("the `output` of a {kind} is neither text nor an array"));
            }
            _ => {}
        }
        self.response(said);
    }
}
