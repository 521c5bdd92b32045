#!/usr/bin/env python3
"""What the next request of a conversation would carry, counted a second time.

    weigh.py FORMAT FILE...      one line of JSON a file

It shares no code with src/ and reads each file whole: it builds the list of what is sent, as the agent would, and adds it
up. Lines that are no JSON are passed over. Of structured values keys, strings and scalars count.
"""
import base64
import json
import os
import re
import sys

TOO_LARGE = re.compile(r"too (long|large)|\b413\b|context.(length|window)|exceeds 5 MB", re.I)


def nbytes(text):
    if not isinstance(text, str) or isinstance(text, Number):
        return 0
    return len(text.encode("utf-8", "surrogatepass"))


def structured(value, decode=nbytes):
    if isinstance(value, str) and not isinstance(value, Number):
        return decode(value)
    if isinstance(value, dict):
        return sum(nbytes(key) + structured(inner, decode) for key, inner in value.items())
    if isinstance(value, list):
        return sum(structured(inner, decode) for inner in value)
    return len(value) if isinstance(value, Number) else len(json.dumps(value))


class Number(str):
    """A number as it is spelled."""


def load(text):
    return json.loads(text, parse_int=Number, parse_float=Number)


def number(value):
    return int(value) if isinstance(value, Number) else 0


class Sum:
    def __init__(self):
        self.assistant = self.user = self.attachments = self.images = self.other = 0
        self.tools = self.tool_images = 0
        self.turns = []
        self.error = None
        self.model = self.window = None

    def add(self, kind, blocks):
        """Adds blocks of any interface; gives whether a tool's response was among them."""
        answered = False
        if isinstance(blocks, (str, dict)):
            blocks = [blocks]
        for block in blocks or []:
            answered |= self.block(kind, block)
        return answered

    def block(self, kind, block):
        if isinstance(block, str):
            self.grow(kind, nbytes(block))
            return False
        sort = block.get("type")
        if sort == "tool_result" or "functionResponse" in block or "toolResult" in block:
            return True
        if sort == "redacted_thinking":
            return False
        if sort in ("image", "input_image", "image_url", "file", "input_file") or "inlineData" in block:
            self.images += 1
        elif sort == "document":
            source = block.get("source", {})
            if source.get("type") == "text":
                self.grow(kind, nbytes(source["data"]))
            elif source.get("type") == "content":
                self.add(kind, source["content"])
            else:
                self.images += 1
        elif sort in ("tool_use", "server_tool_use", "toolCall"):
            self.call(kind, block)
        elif "functionCall" in block:
            self.call(kind, block["functionCall"])
        elif "toolUse" in block:
            self.call(kind, block["toolUse"])
        else:
            for key in ("text", "thinking", "refusal"):
                if not isinstance(block.get(key), Number):
                    self.grow(kind, nbytes(block.get(key)))
        return False

    def call(self, kind, call):
        arguments = next((call[key] for key in ("input", "arguments", "args") if key in call), None)
        self.grow(kind, nbytes(call.get("name")))
        self.grow(kind, structured(arguments) if arguments is not None else 0)

    def grow(self, kind, amount):
        setattr(self, kind, getattr(self, kind) + amount)

    def response(self, content):
        """Adds a tool's response: a string, or texts and images."""
        for part in [content] if isinstance(content, str) else content if isinstance(content, list) else []:
            if isinstance(part, str):
                self.tools += nbytes(part)
            elif part.get("type") in ("image", "input_image"):
                self.tool_images += 1
            else:
                self.tools += nbytes(part.get("text"))


def lines(raw):
    for index, line in enumerate(raw.split(b"\n")):
        try:
            value = load(line.decode("utf-8"))
        except ValueError:
            continue
        if isinstance(value, dict):
            yield index, value


def first_text(content):
    if isinstance(content, str):
        return content
    return next((b["text"] for b in content or [] if isinstance(b, dict) and isinstance(b.get("text"), str)), "")


def claude_code(raw, _path):
    out, records = Sum(), list(lines(raw))
    main = any(not line.get("isSidechain") for _, line in records if line.get("type") in ("user", "assistant"))
    start, kept = 0, set()
    for index, line in records:
        if line.get("subtype") == "compact_boundary" and (not main or not line.get("isSidechain")):
            meta = line.get("compactMetadata") or {}
            start = index
            kept = set((meta.get("preservedMessages") or {}).get("uuids") or [])
            kept |= set((meta.get("preservedMessages") or {}).get("allUuids") or [])
            at = {other.get("uuid"): i for i, other in records if i < index}
            segment = meta.get("preservedSegment") or {}
            head, tail = at.get(segment.get("headUuid")), at.get(segment.get("tailUuid"))
            if head is not None and tail is not None:
                kept |= {other.get("uuid") for i, other in records if head <= i <= tail}
    for index, line in records:
        sort, message = line.get("type"), line.get("message") or {}
        sort = sort or message.get("role")
        if sort == "assistant" and message.get("model") not in (None, "<synthetic>"):
            if not main or not line.get("isSidechain"):
                out.model = message["model"]
        if (index < start and line.get("uuid") not in kept) or (main and line.get("isSidechain")):
            continue
        if sort == "assistant":
            failed = line.get("isApiErrorMessage") is True
            if failed or message.get("model") == "<synthetic>":
                if TOO_LARGE.search(first_text(message.get("content"))):
                    out.error = index
            else:
                out.error = None
            if not failed:
                out.add("assistant", message.get("content"))
        elif sort == "user":
            asks = answered = False
            content = message.get("content") or []
            for block in [content] if isinstance(content, str) else content:
                if isinstance(block, dict) and block.get("type") == "tool_result":
                    answered = True
                    out.response(block.get("content"))
                    continue
                text = block if isinstance(block, str) else block.get("text")
                kind = "user"
                if line.get("isCompactSummary"):
                    kind = "other"
                elif line.get("isMeta") or (text or "").lstrip().startswith("<system-reminder>"):
                    kind = "attachments"
                else:
                    asks |= text is None or (text != "" and not text.startswith("[Request interrupted"))
                out.block(kind, block)
            if asks and not answered:
                out.turns.append(index)
        elif sort == "attachment":
            attachment = line.get("attachment") or {}
            if attachment.get("type") == "queued_command":
                out.add("user", attachment.get("prompt"))
            else:
                out.grow("attachments", values(attachment.get("content", attachment)))
    return out


def values(value):
    if isinstance(value, dict):
        skipped = ("type", "id", "tool_use_id")
        return sum(values(inner) for key, inner in value.items() if key not in skipped)
    if isinstance(value, list):
        return sum(values(inner) for inner in value)
    return nbytes(value) if not isinstance(value, Number) else 0


def pi(raw, _path):
    out = Sum()
    records = list(lines(raw))
    out.model = records[0][1].get("modelId")
    entries = records[1:]
    if records[0][1].get("version") is None:
        path = entries
    else:
        by_id = {entry["id"]: (index, entry) for index, entry in entries}
        path, at = [], entries[-1]
        while at is not None:
            path.append(at)
            at = by_id.get(at[1].get("parentId"))
        path.reverse()
    for _, entry in entries:
        model = entry.get("modelId") if entry["type"] == "model_change" else None
        out.model = model or (entry.get("message") or {}).get("model") or out.model
    places = [entry for _, entry in path]
    compaction = max((n for n, entry in enumerate(places) if entry["type"] == "compaction"), default=None)
    first = 0
    if compaction is not None:
        kept = places[compaction]
        if "firstKeptEntryId" in kept:
            first = next((n for n, e in enumerate(places) if e["id"] == kept["firstKeptEntryId"]), compaction)
        else:
            first = number(kept["firstKeptEntryIndex"]) - 1
    edits = {e["targetId"]: e["replacement"] for e in places if e["type"] == "context_edit"}
    for n, (index, entry) in enumerate(path):
        if n < first:
            continue
        sort, message = entry["type"], entry.get("message") or {}
        if entry.get("id") in edits:
            if not edits[entry["id"]]:
                continue
            message = dict(message, content=edits[entry["id"]]["content"])
        if sort == "compaction" and n == compaction or sort == "branch_summary":
            out.other += nbytes(entry["summary"])
        if sort == "compaction" and n == compaction:
            out.error = None
        if sort == "custom_message":
            out.add("attachments", entry["content"])
        if sort != "message":
            continue
        role = message["role"]
        if role == "user":
            out.turns.append(index)
            out.add("user", message["content"])
        elif role == "bashExecution":
            out.user += nbytes(message["command"]) + nbytes(message["output"])
        elif role == "toolResult":
            out.response(message.get("content"))
        elif role == "hookMessage":
            out.add("attachments", message["content"])
        elif message.get("stopReason") in ("error", "aborted"):
            if TOO_LARGE.search(message.get("errorMessage", "")):
                out.error = index
        else:
            out.error = None
            out.add("assistant", message["content"])
    return out


AGENTS = ("# AGENTS.md", "<environment_context>", "<user_instructions>")
CALLS = ("function_call", "custom_tool_call", "local_shell_call", "web_search_call", "image_generation_call")


def codex(raw, _path):
    out, base, history = Sum(), 0, []
    for index, line in lines(raw):
        sort, payload = line.get("type"), line.get("payload") or line
        if sort == "session_meta":
            base = nbytes((payload.get("base_instructions") or {}).get("text"))
        elif sort == "turn_context":
            out.model = payload.get("model")
        elif sort == "event_msg" and payload.get("type") == "task_started":
            out.window = number(payload.get("model_context_window")) or out.window
        elif sort == "event_msg" and payload.get("type") == "token_count":
            out.window = number((payload.get("info") or {}).get("model_context_window")) or out.window
        elif sort == "event_msg" and payload.get("type") == "thread_rolled_back":
            starts = [n for n, (_, item) in enumerate(history) if asks(item)]
            back = number(payload.get("num_turns"))
            if starts and back:
                del history[starts[max(len(starts) - back, 0)]:]
        elif sort == "compacted":
            replaced = payload.get("replacement_history")
            if replaced is None:
                history = [(i, item) for i, item in history if asks(item)]
                history.append((index, {"type": "summary", "summary": payload.get("message")}))
            else:
                history = [(index, item) for item in replaced]
        elif sort == "response_item" or sort in CALLS or sort == "message" or str(sort).endswith("_call_output"):
            history.append((index, payload))
    out.other = base
    for index, item in history:
        sort = item.get("type")
        if sort in ("function_call_output", "custom_tool_call_output"):
            out.response(item.get("output"))
        elif sort in CALLS:
            out.assistant += nbytes(item.get("name")) + nbytes(item.get("input")) + nbytes(item.get("arguments"))
            out.assistant += structured(item["action"]) if "action" in item else 0
        elif sort == "message":
            kind = {"assistant": "assistant", "user": "user" if asks(item) else "attachments"}.get(item["role"], "other")
            out.add(kind, item["content"])
            if kind == "user" and index not in out.turns:
                out.turns.append(index)
        elif sort == "reasoning":
            out.add("assistant", item.get("summary"))
            out.add("assistant", item.get("content"))
        elif sort == "summary":
            out.add("other", item["summary"])
    return out


def asks(item):
    return item.get("role") == "user" and not any(
        block.get("text", "").lstrip().startswith(AGENTS) for block in item["content"])


def gemini(raw, path):
    if path.endswith(".json"):
        log = [(n, message) for n, message in enumerate(load(raw)["messages"])]
    else:
        log = []
        for index, line in lines(raw):
            if isinstance(line.get("$rewindTo"), str):
                at = next((n for n, (_, m) in enumerate(log) if m["id"] == line["$rewindTo"]), 0)
                del log[at:]
            elif isinstance(line.get("id"), str):
                put(log, index, line)
            elif isinstance(line.get("$set"), dict):
                if "messages" in line["$set"]:
                    log = []
                    for message in line["$set"]["messages"]:
                        put(log, index, message)
            elif "sessionId" in line:
                for message in line.get("messages", []):
                    put(log, index, message)
    out = Sum()
    for index, message in log:
        content = message.get("content")
        if message.get("type") == "user":
            parts = content if isinstance(content, list) else [content]
            text = parts[0] if isinstance(parts[0], str) else (parts[0] or {}).get("text", "")
            for part in parts:
                if isinstance(part, dict) and "functionResponse" in part:
                    gemini_response(out, part["functionResponse"])
            if text.lstrip()[:1] in ("/", "?"):
                continue
            context = text.startswith("<session_context>")
            if not out.add("attachments" if context else "user", parts) and not context:
                out.turns.append(index)
        elif message.get("type") == "gemini":
            out.model = message.get("model", out.model)
            out.add("assistant", content)
            for call in message.get("toolCalls") or []:
                out.call("assistant", call)
                result = call.get("result") or []
                for part in result if isinstance(result, list) else [result]:
                    if isinstance(part, str):
                        out.tools += nbytes(part)
                    elif "functionResponse" in part:
                        gemini_response(out, part["functionResponse"])
                    elif "text" in part:
                        out.tools += nbytes(part["text"])
                    elif "inlineData" in part:
                        out.tool_images += 1
    return out


def gemini_response(out, answer):
    """Texts and images of a response, as deep as servers nest them."""
    todo = [answer["response"], answer.get("parts")]
    while todo:
        value = todo.pop()
        if isinstance(value, list):
            todo += value
        elif isinstance(value, str) and not isinstance(value, Number):
            out.tools += nbytes(value)
        elif isinstance(value, dict):
            out.tool_images += sum(key in value for key in ("inlineData", "data", "blob"))
            todo += [value[key] for key in ("text", "content", "output", "error", "resource") if key in value]


def put(log, index, message):
    at = next((n for n, (_, m) in enumerate(log) if m["id"] == message["id"]), None)
    if at is None:
        log.append((index, message))
    else:
        log[at] = (index, message)


def qwen(raw, _path):
    out = Sum()
    records = [(i, line) for i, line in lines(raw.removeprefix(b"\xef\xbb\xbf")) if "uuid" in line and "type" in line]
    by_id = {}
    for index, line in records:
        by_id.setdefault(line["uuid"], []).append((index, line))
    chain, at = [], records[-1][1]
    while at is not None:
        chain = by_id[at["uuid"]] + chain
        at = by_id[at["parentUuid"]][0][1] if at.get("parentUuid") in by_id else None
    out.model = next((line["model"] for _, line in reversed(records) if "model" in line), None)
    base = max((n for n, (_, line) in enumerate(chain) if line.get("subtype") == "chat_compression"), default=0)
    for index, line in chain[base:]:
        parts = (line.get("message") or {}).get("parts") or []
        if line["type"] == "user":
            out.add("user", parts)
            out.turns.append(index)
        elif line["type"] == "assistant":
            out.add("assistant", parts)
        elif line["type"] == "tool_result":
            for part in parts:
                if "functionResponse" in part:
                    gemini_response(out, part["functionResponse"])
                elif "text" in part:
                    out.tools += nbytes(part["text"])
                else:
                    out.tool_images += 1
        elif line.get("subtype") == "chat_compression":
            for content in line["systemPayload"]["compressedHistory"]:
                kind = "assistant" if content["role"] == "model" else "other"
                out.add(kind, content["parts"])
                for part in content["parts"]:
                    if "functionResponse" in part:
                        gemini_response(out, part["functionResponse"])
    return out


def copilot(raw, _path):
    out, start, began, system = Sum(), 0, None, 0
    events = [(i, e) for i, e in lines(raw) if isinstance(e.get("data"), dict) and "agentId" not in e]
    for index, event in events:
        sort, data = event.get("type"), event["data"]
        if sort == "session.compaction_start":
            began = index
        elif sort == "session.compaction_complete" and data.get("success", True):
            start, out.other = index if began is None else began, nbytes(data.get("summaryContent"))
            began = None
        elif sort == "session.context_cleared":
            start, out.other = index, 0
        elif sort == "system.message":
            system = nbytes(data.get("content"))
    out.other += system
    for index, event in events:
        sort, data = event.get("type"), event["data"]
        out.model = data.get("newModel") or data.get("selectedModel") or data.get("model") or out.model
        if index < start:
            continue
        if sort == "user.message":
            out.user += nbytes(data.get("transformedContent") or data.get("content"))
            out.turns.append(index)
        elif sort == "session.error":
            if TOO_LARGE.search(data.get("message") or "") or number(data.get("statusCode")) == 413:
                out.error = index
        elif sort == "assistant.message":
            out.error = None
            out.assistant += nbytes(data.get("content"))
            for request in data.get("toolRequests") or []:
                out.call("assistant", request)
        elif sort == "tool.execution_complete":
            result, message = data.get("result") or {}, (data.get("error") or {}).get("message")
            text = message if data.get("success") is False and message else result.get("content") or message
            out.tools += nbytes(text)
            binaries = result.get("binaryResultsForLlm") or []
            out.tool_images += sum(1 for b in binaries if "data" in b or "assetId" in b)
    return out


def jp(raw, path):
    out, events = Sum(), load(raw)
    turns, turn, begun = [], 0, False
    for event in events:
        sort = event.get("type") if isinstance(event, dict) else None
        turn += sort == "turn_start" and begun
        begun |= sort in ("turn_start", "chat_request", "chat_response", "tool_call_request", "tool_call_response")
        turns.append(turn)
    overlays = [e for e in events if isinstance(e, dict) and e.get("type") == "compaction"]

    def word(turn, key):
        on = [o for o in overlays if o.get(key) and number(o["from_turn"]) <= turn <= number(o["to_turn"])]
        return max(on, key=lambda o: o["timestamp"])[key] if on else {}
    prompts = {}
    configs = []
    base = os.path.join(os.path.dirname(path), "base_config.json")
    if os.path.exists(base):
        configs.append(load(open(base, encoding="utf-8").read()))
    configs += [e.get("delta", e) for e in events if isinstance(e, dict) and e.get("type") == "config_delta"]
    for config in configs:
        assistant = config.get("assistant") or {}
        for key in ("system_prompt", "instructions", "system_prompt_sections"):
            if key in assistant:
                prompts[key] = values(assistant[key])
        model = (assistant.get("model") or {}).get("id")
        out.model = (model.get("name") if isinstance(model, dict) else model) or out.model
    if ".archive" in path:
        return out
    out.other = sum(prompts.values())
    for first in {number(o["from_turn"]) for o in overlays if o.get("summary")}:
        out.other += nbytes(word(first, "summary").get("summary"))
    for index, event in enumerate(events):
        sort = event.get("type") if isinstance(event, dict) else None
        calls = word(turns[index], "tool_calls")
        if word(turns[index], "summary"):
            continue
        if sort == "turn_start":
            out.turns.append(index)
        elif sort == "chat_request":
            if not any(e.get("type") == "turn_start" for e in events[:index] if isinstance(e, dict)):
                out.turns.append(index)
            out.user += nbytes(event["content"])
        elif sort == "chat_response":
            out.assistant += nbytes(event.get("message"))
            out.assistant += 0 if word(turns[index], "reasoning") else nbytes(event.get("reasoning"))
        elif sort == "tool_call_request":
            if calls.get("policy") == "omit":
                continue
            out.assistant += nbytes(event["name"])
            out.assistant += 0 if calls.get("request") else structured(event.get("arguments") or {}, decoded)
        elif sort == "tool_call_response" and calls.get("policy") != "omit" and not calls.get("response"):
            content = event.get("content")
            out.tools += decoded(content) if isinstance(content, str) and not isinstance(content, Number) else 0
    return out


def decoded(text):
    try:
        data = base64.b64decode(text, validate=True)
        if base64.b64encode(data).decode() == text:
            return len(data.decode("utf-8").encode())
    except ValueError:
        pass
    return nbytes(text)


FORMATS = {"claude-code": claude_code, "pi": pi, "codex": codex, "gemini": gemini, "gemini-json": gemini,
           "qwen": qwen, "copilot": copilot, "jp": jp}


def main():
    form = sys.argv[1]
    for path in sys.argv[2:]:
        with open(path, "rb") as file:
            out = FORMATS[form](file.read(), path)
        print(json.dumps(vars(out)))


if __name__ == "__main__":
    main()
