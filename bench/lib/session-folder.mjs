// Folders of many sessions, kept between runs like single ones.
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SessionLines, VERSION } from "./session-lines.mjs";

/** So many sessions of so many entries, each its own; returns the folder. */
export function sessionFolder(
  /** @type {string} */ parent,
  /** @type {{ sessions: number, entries: number }} */ { sessions, entries },
) {
  const folder = join(parent, `v${VERSION}_${sessions}-sessions-of-${entries}`);
  if (existsSync(folder)) return folder;
  rmSync(`${folder}.${process.pid}.part`, { recursive: true, force: true });
  mkdirSync(`${folder}.${process.pid}.part`, { recursive: true });
  // One text for all but their headers: what differs between sessions is not what listing them costs.
  const [, ...lines] = new SessionLines({ entries, compactions: entries > 100 }).lines();
  const body = lines.join("\n");
  for (let at = 0; at < sessions; at++) {
    const timestamp = new Date(Date.UTC(2026, 0, 1) + at * 60_000).toISOString();
    const header = { type: "session", version: 3, id: `bench${at}`, timestamp, cwd: "/home/ada/tidepool" };
    const name = `${timestamp.replace(/[:.]/g, "-")}_bench${at}.jsonl`;
    writeFileSync(join(`${folder}.${process.pid}.part`, name), `${JSON.stringify(header)}\n${body}\n`);
  }
  renameSync(`${folder}.${process.pid}.part`, folder);
  return folder;
}
