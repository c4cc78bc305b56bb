// Generated session files, kept between runs.
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { SessionLines, VERSION } from "./session-lines.mjs";

const CHUNK = 1 << 20;

/**
 * @typedef {object} SessionFile
 * @property {string} path
 * @property {number} entries
 * @property {number} bytes
 * @property {string} leaf id of the newest entry
 * @property {{ at: number, id: string }[]} landmarks one entry in a thousand, branches that were left included
 */

/** Makes the file that a recipe describes, if it is not there. @returns {SessionFile} */
export function sessionFile(
  /** @type {string} */ folder,
  /** @type {import("./session-lines.mjs").Recipe} */ recipe,
) {
  mkdirSync(folder, { recursive: true });
  const name = Object.entries(recipe).map(([key, value]) => `${key}-${value}`);
  const path = join(folder, `v${VERSION}_${name.join("_")}.jsonl`);
  const factsPath = `${path}.facts`;
  if (existsSync(factsPath)) return JSON.parse(readFileSync(factsPath, "utf8"));
  const session = new SessionLines(recipe);
  const bytes = writeLines(`${path}.${process.pid}.part`, session.lines());
  renameSync(`${path}.${process.pid}.part`, path);
  const facts = { path, entries: session.entries, bytes, leaf: session.leaf, landmarks: session.landmarks };
  writeFileSync(factsPath, JSON.stringify(facts));
  return facts;
}

/** Writes lines in pieces of a megabyte; returns the bytes written. */
export function writeLines(/** @type {string} */ path, /** @type {Iterable<string>} */ lines) {
  const fd = openSync(path, "w");
  let bytes = 0;
  let text = "";
  const write = () => {
    bytes += writeSync(fd, text);
    text = "";
  };
  for (const line of lines) {
    text += `${line}\n`;
    if (text.length > CHUNK) write();
  }
  write();
  closeSync(fd);
  return bytes;
}
