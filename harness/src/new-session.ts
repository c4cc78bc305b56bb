import { writeFileSync } from "node:fs";
import { formatLine } from "@espalier/jsonl-stream";
import { type Entry, message, type SessionHeader } from "@espalier/session-tree";

/** A header for a session of a trial. */
export const headerOf = (id: string): SessionHeader => ({
  type: "session",
  version: 3,
  id,
  timestamp: "2026-01-01T00:00:00.000Z",
  cwd: "/garden",
});

/** So many entries, one under the other: by turns a question, and a shell run. */
export function chainOf(count: number): Entry[] {
  return Array.from({ length: count }, (_, at) => {
    const isUser = at % 2 === 0;
    const said = isUser
      ? { role: "user" as const, content: `Question ${at}: "why" \\ ü 😀?`, timestamp: at }
      : {
          role: "bashExecution" as const,
          command: `echo ${at}`,
          output: `${at}`,
          exitCode: 0,
          timestamp: at,
        };
    return {
      ...message.of({ message: said as never }),
      id: `entry${at}`,
      parentId: at === 0 ? null : `entry${at - 1}`,
      timestamp: new Date(Date.UTC(2026, 0, 1) + at * 1_000).toISOString(),
    } as Entry;
  });
}

/** The bytes of a session with these entries. */
export function sessionBytes(entries: readonly Entry[], id = "trial"): Buffer {
  return Buffer.from([headerOf(id), ...entries].map((line) => `${formatLine(line)}\n`).join(""));
}

/** Puts a session where a trial wants it. */
export function writeSession(path: string, entries: readonly Entry[] = []): string {
  writeFileSync(path, sessionBytes(entries), { mode: 0o600 });
  return path;
}
