// Plays a sequence of calls on a `SessionManager`, Pi's or ours, and tells in data what came of it.
import { existsSync } from "node:fs";
import type { SessionManager as Ours } from "../../../src/adapters/pi.ts";

const USAGE = { input: 1, output: 1, cacheRead: 0, cacheWrite: 0, totalTokens: 2, cost: { total: 0 } };

/** One call of a sequence: which, on what, with what text. */
export interface Call {
  call: string;
  at: number;
  text: string;
}

/** What came of a sequence. */
export interface Played {
  told: object;
  /** Calls that threw, and the beginning of what they said. */
  refused: string[];
  /** The session's file, once there is one. */
  file: string | null;
}

/** @param folder of the sessions' files */
export function play(SessionManager: typeof Ours, calls: readonly Call[], folder: string): Played {
  let session: Ours = SessionManager.create("/work", folder);
  const refused: string[] = [];
  for (const [index, { call, at, text }] of calls.entries()) {
    const all = session.getEntries();
    const branch = session.getBranch();
    const any = all[at % Math.max(1, all.length)]?.id;
    const own = branch[at % Math.max(1, branch.length)]?.id;
    const time = 1_000 + index;
    const said = {
      text: () => ({ type: "text" as const, text }),
      picture: () => ({ type: "image" as const, data: "aaaa", mimeType: "image/png" }),
    };
    const acts: Record<string, () => unknown> = {
      user: () =>
        session.appendMessage({
          role: "user",
          content: at % 2 ? text : [said.text(), said.picture()],
          timestamp: time,
        }),
      assistant: () =>
        session.appendMessage({
          role: "assistant",
          content: [
            said.text(),
            ...(at % 3
              ? []
              : [{ type: "toolCall" as const, id: `call${index}`, name: "read", arguments: { path: text } }]),
          ],
          api: "test",
          provider: "p",
          model: `m${at % 3}`,
          usage: USAGE,
          stopReason: at % 3 ? "stop" : "toolUse",
          timestamp: time,
        }),
      result: () =>
        session.appendMessage({
          role: "toolResult",
          toolCallId: `call${index - 1}`,
          toolName: "read",
          content: [said.text()],
          isError: false,
          timestamp: time,
        }),
      bash: () =>
        session.appendMessage({
          role: "bashExecution",
          command: "ls",
          output: text,
          exitCode: 0,
          cancelled: false,
          truncated: false,
          timestamp: time,
        }),
      thinking: () => session.appendThinkingLevelChange(["off", "low", "high"][at % 3]!),
      model: () => session.appendModelChange("q", `n${at % 3}`),
      usage: () => session.appendUsage("cache_warm", "p", "m", USAGE),
      compact: () => own && session.appendCompaction(text, own, at, { readFiles: [text], modifiedFiles: [] }),
      custom: () => session.appendCustomEntry("state", { at, nested: { text } }),
      name: () => session.appendSessionInfo(`${text}\n${at % 3 ? "x" : ""}`),
      inject: () => session.appendCustomMessageEntry("note", text, at % 2 === 0, { at }),
      edit: () => {
        const able = branch.filter(
          (entry) =>
            entry.type === "custom_message" ||
            ["user", "assistant", "toolResult"].includes(roleOf(entry) ?? ""),
        );
        const target = able[at % Math.max(1, able.length)]?.id;
        return target && session.appendContextEdit(target, at % 3 ? { content: text } : null);
      },
      label: () => any && session.appendLabelChange(any, at % 4 ? text : undefined),
      branch: () => any && session.branch(any),
      reset: () => session.resetLeaf(),
      leave: () => session.branchWithSummary(at % 5 ? (any ?? null) : null, text, undefined, at % 2 === 0),
      extract: () => own && session.createBranchedSession(own),
      reopen: () => {
        if (existsSync(session.getSessionFile()!) && hasAnswer(session))
          session = SessionManager.open(session.getSessionFile()!, folder);
      },
      fork: () => {
        if (hasAnswer(session))
          session = SessionManager.forkFrom(session.getSessionFile()!, "/elsewhere", folder);
      },
    };
    try {
      acts[call]?.();
    } catch (error) {
      refused.push(`${call} ${error instanceof Error ? error.message.split(/[;,]/)[0] : error}`);
    }
  }
  const file = session.getSessionFile();
  return { told: tell(session), refused, file: file && existsSync(file) && hasAnswer(session) ? file : null };
}

const REFERENCES = new Set(["fromId", "targetId", "firstKeptEntryId", "parentId"]);

/** What a session says of itself, with ordinals for ids and without times. */
export function tell(session: Ours): object {
  const entries = session.getEntries();
  const ordinals = new Map(entries.map(({ id }, at) => [id, `#${at}`]));
  const plain = (value: unknown) =>
    JSON.parse(
      JSON.stringify(value ?? null, (key, inner) => {
        if (key === "timestamp" || key === "labelTimestamp") return undefined;
        if (typeof inner !== "string") return inner;
        // A session that was made of another's path may name entries that it does not have.
        const isGone = REFERENCES.has(key) && inner !== "root" && !ordinals.has(inner);
        return isGone ? "gone" : (ordinals.get(inner) ?? inner);
      }),
    );
  const projection = session.buildSessionProjection?.();
  return plain({
    cwd: session.getHeader().cwd,
    isFork: session.getHeader().parentSession !== undefined,
    name: session.getSessionName(),
    leaf: session.getLeafId(),
    entries,
    tree: session.getTree(),
    context: session.buildSessionContext(),
    sources: projection?.entries.flatMap(({ sourceEntry, messages }) => messages.map(() => sourceEntry.id)),
    branch: session.getBranch().map(({ id }) => id),
    children: entries.map(({ id }) => session.getChildren(id).map((child) => child.id)),
    labels: entries.map(({ id }) => session.getLabel(id)),
  });
}

const hasAnswer = (session: Ours): boolean =>
  session.getEntries().some((entry) => roleOf(entry) === "assistant");

const roleOf = (entry: object): string | undefined => (entry as { message?: { role: string } }).message?.role;
