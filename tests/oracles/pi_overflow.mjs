// usage: node pi_overflow.mjs FOLDER old|new     (FOLDER: what the oracle's setup.sh filled)
// Reads a JSON list of error texts and writes, for each, whether pi's own program takes it for one of too much context; then
// the examples that its source gives of such errors.
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, which] = process.argv.slice(2);
const scope = { old: "@mariozechner", new: "@earendil-works" }[which];
const file = join(resolve(folder, which), "node_modules", scope, "pi-ai", "dist", "utils", "overflow.js");
const { isContextOverflow } = await import(pathToFileURL(file).href);
const yes = (errorMessage) => isContextOverflow({ role: "assistant", stopReason: "error", errorMessage, usage: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 } });
const quoted = [...readFileSync(file, "utf8").matchAll(/^ \* - [^:\n]+: (?:"(.+)"|'(.+)'|`(\{.+?\})`)/gm)].map((m) => (m[1] ?? m[2] ?? m[3]).replaceAll('\\"', '"'));
const examples = [...new Set(quoted)].map((text) => text.replaceAll(/\b[XY]\b/g, "123456"));
const asked = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify({ asked: asked.map(yes), examples: examples.map((text) => [text, yes(text)]) }));
