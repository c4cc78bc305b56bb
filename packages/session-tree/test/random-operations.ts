import {
  branchSummary,
  compaction,
  contextEdit,
  createId,
  custom,
  customMessage,
  type Entry,
  kindOf,
  label,
  leaf,
  message,
  modelChange,
  type NewEntry,
  type SessionTree,
  sessionInfo,
  thinkingLevelChange,
  usage,
} from "@espalier/session-tree";
import fc from "fast-check";

/** An operation on a session. Numbers select an existing entry. */
export type Operation =
  | { does: "append"; parent: number | null; entries: Draft[] }
  | { does: "move"; target: number | null }
  | { does: "branch with summary"; target: number | null; text: string }
  | { does: "compact"; firstKept: number; text: string }
  | { does: "fork"; target: number; position: "at" | "before" }
  | { does: "reopen" }
  | { does: "try in vain"; what: Vain };

/** Appends that must be refused. */
export type Vain =
  | "unknown parent"
  | "edit off the path"
  | "cut off the path"
  | "known id"
  | "unsound"
  | "not JSON"
  | "label of nobody";

export interface Draft {
  kind: string;
  target: number;
  text: string;
}

const text = fc.constantFrom(
  "",
  "plain",
  "ü😀",
  "\ud83d",
  "a\udc00b",
  "\u2028\u0000",
  '{"type":"x","parentId":',
  "\\ud800",
  "x".repeat(400),
);
const target = fc.nat({ max: 60 });
const place = fc.oneof({ weight: 8, arbitrary: target }, { weight: 1, arbitrary: fc.constant(null) });

/** What a draft becomes an entry from. */
interface Surroundings {
  said: string;
  /** An entry of the session; undefined in an empty one. */
  other: string | undefined;
  /** Ids of the path under which the entry will stand. */
  path: readonly string[];
  /** An entry of that path. */
  above: string | undefined;
  /** Where the leaf can be moved to. */
  place: string | null;
}

const says = (role: string, fields: object) =>
  message.of({ message: { role, timestamp: 1, ...fields } as never });
const bill = { input: 1, output: 1, cacheRead: 0, cacheWrite: 0 };
const answer = (content: object[], stopReason: string) =>
  says("assistant", { content, provider: "anthropic", model: "claude-a", stopReason, usage: bill });
const note = ({ said }: Surroundings) => customMessage.of({ customType: "t", content: said, display: true });

const makers: Record<string, (around: Surroundings) => NewEntry> = {
  user: ({ said }) => says("user", { content: said }),
  assistant: ({ said }) =>
    answer(
      [
        { type: "thinking", thinking: said, thinkingSignature: "sig" },
        { type: "text", text: said },
      ],
      "stop",
    ),
  calls: ({ said }) =>
    answer(
      ["c1", "c2"].map((id) => ({ type: "toolCall", id, name: "read", arguments: { [said]: said } })),
      "toolUse",
    ),
  result: ({ said }) =>
    says("toolResult", {
      toolCallId: said === "" ? "c1" : "c2",
      toolName: "read",
      content: [{ type: "text", text: said }],
      isError: false,
    }),
  failed: ({ said }) => answer([{ type: "text", text: said }], said === "" ? "error" : "aborted"),
  shell: ({ said }) =>
    says("bashExecution", { command: "ls", output: said, exitCode: 0, excludeFromContext: said === "" }),
  system: ({ said }) => says("system", { content: said }),
  note,
  state: ({ said }) => custom.of({ customType: "t", data: { [said]: said } }),
  model: ({ said }) => modelChange.of({ provider: "p", modelId: said }),
  thinking: ({ said }) => thinkingLevelChange.of({ thinkingLevel: said }),
  compaction: ({ said, above }) => cut(said, above),
  nothingKept: ({ said }) => cut(said, undefined),
  summary: ({ said, other }) => branchSummary.of({ summary: said, fromId: other ?? "root" }),
  edit: (around) => {
    const { said, above } = around;
    return above === undefined
      ? note(around)
      : contextEdit.of({ targetId: above, replacement: said === "" ? null : { content: said } });
  },
  label: (around) => {
    const { said, other } = around;
    return other === undefined
      ? note(around)
      : label.of({ targetId: other, ...(said === "" ? {} : { label: said }) });
  },
  leaf: ({ place }) => leaf.of({ targetId: place, parentId: place }),
  name: ({ said }) => sessionInfo.of({ name: said }),
  usage: () => usage.of({ kind: "t", provider: "p", model: "m", usage: bill }),
  unknown: ({ said }) => ({ type: "unheard_of", said }) as never,
};

function cut(summary: string, firstKept: string | undefined) {
  const id = createId();
  return compaction.of({ id, summary, firstKeptEntryId: firstKept ?? id, tokensBefore: 1 });
}

const draft: fc.Arbitrary<Draft> = fc.record({ kind: fc.constantFrom(...Object.keys(makers)), target, text });

const operation: fc.Arbitrary<Operation> = fc.oneof(
  {
    weight: 9,
    arbitrary: fc.record({
      does: fc.constant("append" as const),
      parent: fc.option(target, { freq: 3 }),
      entries: fc.array(draft, { minLength: 1, maxLength: 4 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ does: fc.constant("move" as const), target: place }) },
  {
    weight: 1,
    arbitrary: fc.record({ does: fc.constant("branch with summary" as const), target: place, text }),
  },
  { weight: 1, arbitrary: fc.record({ does: fc.constant("compact" as const), firstKept: target, text }) },
  {
    weight: 1,
    arbitrary: fc.record({
      does: fc.constant("fork" as const),
      target,
      position: fc.constantFrom("at" as const, "before" as const),
    }),
  },
  { weight: 1, arbitrary: fc.constant<Operation>({ does: "reopen" }) },
  {
    weight: 1,
    arbitrary: fc.record({
      does: fc.constant("try in vain" as const),
      what: fc.constantFrom<Vain>(
        "unknown parent",
        "edit off the path",
        "cut off the path",
        "known id",
        "unsound",
        "not JSON",
        "label of nobody",
      ),
    }),
  },
);

/** Some things that are done to a session, one after the other. */
export const operations = (maxLength: number): fc.Arbitrary<Operation[]> =>
  fc.array(operation, { minLength: 1, maxLength, size: "max" });

export function pick<T>(list: readonly T[], at: number): T | undefined {
  return list[at % Math.max(1, list.length)];
}

/** The entries of an append as a session takes them; the first stands under the parent that was picked, if it can. */
export function entriesOf(
  session: SessionTree,
  { parent, entries }: Operation & { does: "append" },
): NewEntry[] {
  const ids = [...session.tree.ids()];
  const parentId = parent === null ? undefined : pick(ids, parent);
  let path = session.getBranch(parentId ?? session.leafId).map(({ id }) => id);
  return entries.map((drawn, at) => {
    const other = pick(ids, drawn.target);
    const place = other === undefined ? null : session.placeOf(other);
    const around = { said: drawn.text, other, path, above: pick(path, drawn.target), place };
    const made = { id: createId(), ...makers[drawn.kind]!(around) };
    if (leaf.is(made as Entry)) {
      path = session.getBranch(place).map(({ id }) => id);
      return made;
    }
    if (!kindOf(made as Entry).movesLeaf) {
      // It takes the leaf for its parent, so those after it stand there too.
      if (at === 0) path = session.getBranch().map(({ id }) => id);
      return made;
    }
    path = [...path, made.id];
    return at === 0 && parentId !== undefined ? { ...made, parentId } : made;
  });
}

/** An append that must be refused, and the code that says why. */
export function inVain(session: SessionTree, what: Vain): { draft: NewEntry; code: string } {
  const known = [...session.tree.ids()][0];
  const offPath =
    [...session.tree.ids()].find((id) => !session.getBranch().some((entry) => entry.id === id)) ?? "nobody";
  const hello = says("user", { content: "hello" });
  switch (what) {
    case "unknown parent":
      return { draft: { ...hello, parentId: "nobody" }, code: "unknown-parent" };
    case "edit off the path":
      return { draft: contextEdit.of({ targetId: offPath, replacement: null }), code: "off-path" };
    case "cut off the path":
      return {
        draft: compaction.of({ summary: "s", firstKeptEntryId: offPath, tokensBefore: 1 }),
        code: "off-path",
      };
    case "known id":
      return known === undefined
        ? inVain(session, "unsound")
        : { draft: { ...hello, id: known }, code: "duplicate-id" };
    case "unsound":
      return { draft: { type: "message" } as NewEntry, code: "invalid-entry" };
    case "not JSON":
      return {
        draft: custom.of({ customType: "t", data: { when: new Date(0), big: 10n } }),
        code: "invalid-entry",
      };
    case "label of nobody":
      return { draft: label.of({ targetId: "nobody", label: "x" }), code: "unknown-entry" };
  }
}
