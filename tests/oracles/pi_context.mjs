// usage: node pi_context.mjs FOLDER old|new OUT SESSION.jsonl...     (FOLDER: what the oracle's setup.sh filled)
// Writes to OUT, one line a session: every entry that pi reads from it, and every message that pi would send, whole.
// Like oracle.mjs it opens a copy, since open() may write. Nothing is sent.
import { closeSync, copyFileSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, which, to, ...files] = process.argv.slice(2);
const packages = { old: "@mariozechner/pi-coding-agent", new: "@earendil-works/pi-coding-agent" };
const root = pathToFileURL(resolve(folder, which, "node_modules", packages[which], "dist")).href + "/";
const { SessionManager } = await import(root + "core/session-manager.js");
const { convertToLlm } = await import(root + "core/messages.js");
const out = openSync(to, "w");
for (const file of files) {
  const dir = mkdtempSync(join(tmpdir(), "pi-context-"));
  const copy = join(dir, basename(file));
  copyFileSync(file, copy);
  let told;
  try {
    const session = SessionManager.open(copy);
    told = { loaded: true, entries: session.getEntries(), messages: convertToLlm(session.buildSessionContext().messages) };
  } catch (e) {
    told = { loaded: false, error: e.message };
  }
  writeSync(out, JSON.stringify(told) + "\n");
  rmSync(dir, { recursive: true, force: true });
}
closeSync(out);
