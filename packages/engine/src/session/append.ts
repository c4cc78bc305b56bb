import { AsyncLocalStorage } from "node:async_hooks";
import {
  findRulesOnce,
  foundIn,
  newRules,
  RULE,
  type Rule,
  type RuleData,
  ruleFrom,
  ruleOf,
  rulesFound,
} from "@espalier/compaction";
import { EspalierError } from "@espalier/jsonl-stream";
import {
  type ContextMessage,
  contextEdit,
  createId,
  custom,
  customMessage,
  type Entry,
  isMessage,
  messageText,
  type NewEntry,
  Redactor,
  readDrafts,
  redactEntry,
  redactText,
} from "@espalier/session-tree";
import { type FoundRule, findRules } from "@espalier/summarizer";
import { contextForHandlers } from "../extensions/context.ts";
import { isBeside, rulesAtLeaf, rulesOf } from "./edit.ts";
import type { Session } from "./session.ts";
import { entryBeforeAppend } from "./state.ts";

/**
 * Runs the hooks of an append, then the redaction, and adds the rules in each user's message directly after it. Returns
 * the drafts to write.
 *
 * @param rules receives the ids of the added rule entries and their edits
 * @param createdIds receives all ids that are new, also those of messages with rules
 * @throws ExtensionError when a critical handler fails; EspalierError `invalid-entry`
 */
export async function transformDrafts(
  session: Session,
  rules: Set<string>,
  drafts: readonly NewEntry[],
  createdIds: Set<string>,
): Promise<readonly NewEntry[]> {
  const handled = await handledDrafts(session, drafts);
  const { lease, heldBy, isReadOnly } = session;
  // Under the leaf of the opening, a label would move the log's leaf back to before what the writer appended since.
  if (!(lease ?? heldBy ?? isReadOnly) && handled.every(isBeside)) await session.followLog();
  if (session.options.rules === false || !handled.some(isPrompt)) return handled;
  const out: NewEntry[] = [];
  // Rules are searched after redaction, in the text that is written.
  for (const draft of handled) {
    out.push(draft);
    if (!isPrompt(draft)) continue;
    const behind = await rulesBehind(session, draft, out);
    if (!behind) continue;
    if (draft.id === undefined) createdIds.add(behind.id);
    for (const { id } of behind.entries) {
      rules.add(id!);
      createdIds.add(id!);
    }
    out.splice(-1, 1, { ...draft, id: behind.id }, ...behind.entries);
  }
  return out;
}

/** Runs the hooks of an append, then the redaction. Throws as {@link transformDrafts}. */
export async function handledDrafts<Drafted extends NewEntry | Entry>(
  session: Session,
  drafts: readonly Drafted[],
): Promise<readonly Drafted[]> {
  const { host, options } = session;
  const { redact = redactText } = options;
  // The append refuses a value that is nested too deeply to be redacted: it is too deep to be written.
  const redactor = redact && new Redactor(redact, { tooDeep: (value) => value });
  const redacted = (draft: Drafted): Drafted =>
    redactor ? readDrafts(() => redactEntry(draft, redactor)) : draft;
  if (!host.has(entryBeforeAppend)) return drafts.map(redacted);
  const append: HandledAppend = { session, isOver: false, outer: running.getStore() };
  // Each draft has its own context: handlers of all drafts run at once, and Node.js warns of a signal with 11 listeners.
  const transformed = async (draft: Drafted) =>
    redacted(
      (await host.transform(entryBeforeAppend, draft as NewEntry, contextForHandlers(session))) as Drafted,
    );
  try {
    return await running.run(append, () => Promise.all(drafts.map(transformed)));
  } finally {
    append.isOver = true;
  }
}

interface HandledAppend {
  session: Session;
  /** Set once the append no longer waits. */
  isOver: boolean;
  /** The append whose handler started this one, in another session. */
  outer: HandledAppend | undefined;
}

const running = new AsyncLocalStorage<HandledAppend>();

/**
 * Refuses an append by a handler of `entry_before_append` while the same session's append waits for that handler: each
 * would wait for the other. Afterwards, and in other sessions, a handler may append.
 *
 * @throws EspalierError `nested-append`
 */
export function refuseNestedAppend(session: Session): void {
  for (let append = running.getStore(); append; append = append.outer) {
    if (append.session !== session || append.isOver) continue;
    throw new EspalierError(
      "nested-append",
      "A handler of entry_before_append cannot append to the session that waits for its answer; do it in entry_appended.",
    );
  }
}

const isPrompt = (draft: NewEntry): boolean => isMessage(draft as Entry, "user");

/** Returns rule entries of one message, and the message's id, to which they refer; undefined when it has no rules. */
async function rulesBehind(session: Session, draft: NewEntry, batch: readonly NewEntry[]) {
  const { message } = draft as NewEntry & { message: ContextMessage };
  const own = findRulesOnce(message);
  const hasHandler = session.host.has(rulesFound);
  if (own.length === 0 && !hasHandler) return undefined;
  // The whole batch follows the first parent that it names.
  const place = batch.find(({ parentId }) => parentId !== undefined)?.parentId ?? session.leafId;
  // The append itself refuses such a parent.
  if (place !== null && place !== session.leafId && !session.tree.has(place)) return undefined;
  const id = draft.id ?? createId();
  const path = () => (place === session.leafId ? session.window.entries : session.getBranch(place));
  const above = () => [...path(), ...(batch.slice(0, -1) as Entry[])];
  let { found } = foundIn({ ...draft, id } as Entry, above);
  if (hasHandler) {
    const given = { text: messageText(message), rules: [...found] };
    const { rules } = await session.host.transform(rulesFound, given, contextForHandlers(session));
    const { redact = redactText } = session.options;
    // A handler may write a rule in its own words.
    found = redact ? rules.map((rule) => ({ ...rule, text: redact(rule.text) })) : rules;
  }
  if (own.length === 0 && found.length === 0) return undefined;
  const holding = await session.withinReach(() => rulesOf(session, place));
  const earlier = batch.flatMap((entry) => {
    const data = ruleOf(entry as Entry);
    return data && entry.id !== undefined ? [ruleFrom(data, entry.id)] : [];
  });
  const data = newRules([...holding, ...earlier], { entryId: id, found });
  // This entry prevents that the rules are found again when the session is compacted.
  const isEmptied = own.length > 0 && found.length === 0;
  const trace: RuleData = { text: "", kind: "preference", from: { entryId: id, range: [0, 0] } };
  const entries = (isEmptied ? [trace] : data).flatMap((one) =>
    ruleEntries(session, one, { place, earlier }),
  );
  return entries.length === 0 ? undefined : { id, entries };
}

/**
 * Returns the entries of a rule: the rule itself and, if it replaces a rule that has an entry on the path or in the
 * batch, the edit that removes that entry.
 */
function ruleEntries(
  session: Session,
  data: RuleData,
  { place = session.leafId, earlier = [] }: { place?: string | null; earlier?: readonly Rule[] } = {},
): NewEntry[] {
  const { supersedes } = data;
  const isEntry =
    supersedes !== undefined &&
    (earlier.some(({ id }) => id === supersedes) || session.isOnPath(supersedes, place));
  return [
    custom.of({ id: createId(), customType: RULE, data }),
    ...(isEntry ? [contextEdit.of({ id: createId(), targetId: supersedes, replacement: null })] : []),
  ];
}

/** Adds a rule by hand, with a message that the model reads. Throws `not-text` if blank, `exists` if it applies. */
export async function addRule(session: Session, given: string): Promise<void> {
  await session.append(() => {
    const text = oneLine(given);
    if (text === "")
      throw new EspalierError("not-text", 'The rule is empty; write the rule, such as "never push".');
    const id = createId();
    const content = `${ADDED}${text}`;
    const range: [number, number] = [ADDED.length, content.length];
    const found: FoundRule = { text, kind: findRules(text)[0]?.kind ?? "always", range };
    const kind = found.kind === "allowed" ? "always" : found.kind;
    const [data] = newRules(rulesAtLeaf(session), { entryId: id, found: [{ ...found, kind }] });
    if (!data) throw new EspalierError("exists", `This rule already applies: ${text}`);
    const told = customMessage.of({ id, customType: RULE, content, display: true });
    return [told, ...ruleEntries(session, data)];
  });
}

const ADDED = "A rule from here on: ";

/** Drops a rule that applies at the leaf, with a message that the model reads. Throws `unknown-rule` for other ids. */
export async function dropRule(session: Session, id: string): Promise<void> {
  await session.append(() => {
    const rules = rulesAtLeaf(session);
    const rule = rules.find((one) => one.id === id);
    if (!rule)
      throw new EspalierError(
        "unknown-rule",
        `No rule ${JSON.stringify(id)} applies here; \`espalier rules\` lists those that do.`,
      );
    const content = `This rule no longer applies: ${rule.text}`;
    const told = customMessage.of({ customType: RULE, content, display: true });
    const dropped = (targetId: string) => contextEdit.of({ targetId, replacement: null });
    if (session.isOnPath(id)) return [told, dropped(id)];
    // The rule and other rules of its message get entries, because a message with a rule entry is not searched again.
    const siblings = rules.filter(({ from }) => from.entryId === rule.from.entryId);
    const entries = siblings.map((one) => custom.of({ id: createId(), customType: RULE, data: dataOf(one) }));
    return [told, ...entries, dropped(entries[siblings.indexOf(rule)]!.id!)];
  });
}

function dataOf({ text, kind, from, supersedes }: Rule): RuleData {
  const range: [number, number] = [from.start, from.end];
  return { text, kind, from: { entryId: from.entryId, range }, ...(supersedes ? { supersedes } : {}) };
}

/** Returns a label or name as one line. Throws `not-text` for a blank one; `what` names it in the message. */
export function shownLine(text: string, what: string): string {
  const line = oneLine(text);
  if (line === "")
    throw new EspalierError("not-text", `The ${what} is empty; give it at least one character.`);
  return line;
}

/** Returns a text as one line: each run of white space becomes one space, and the ends are trimmed. */
export const oneLine = (text: string): string => text.replace(/\s+/g, " ").trim();
