import { newRules, RULE, type Rule, type RuleData } from "@espalier/compaction";
import { EspalierError } from "@espalier/jsonl-stream";
import { contextEdit, createId, custom, customMessage, type NewEntry } from "@espalier/session-tree";
import { type FoundRule, findRules } from "@espalier/summarizer";
import { oneLine, rulesAtLeaf } from "./edit.ts";
import type { Session } from "./session.ts";

/** Returns the entries of a rule: the rule itself, and the edit that removes the rule that it replaces. */
export function ruleEntries(
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

/** Adds a rule by hand, and notifies the model. Throws `not-text`, `exists`. */
export async function addRule(session: Session, text: string): Promise<void> {
  await session.append(() => planRule(session, text));
}

/** Drops a rule that applies at the leaf, and notifies the model. Throws `unknown-rule`. */
export async function dropRule(session: Session, id: string): Promise<void> {
  await session.append(() => planDrop(session, id));
}

/** Returns the entries that add a rule by hand: a message for the model, and the rule in it. */
function planRule(session: Session, given: string): NewEntry[] {
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
  return [customMessage.of({ id, customType: RULE, content, display: true }), ...ruleEntries(session, data)];
}

const ADDED = "A rule from here on: ";

/**
 * Returns the entries that drop a rule: a message for the model, the rule itself if it has no entry on this path, and
 * the edit that removes it.
 */
function planDrop(session: Session, id: string): NewEntry[] {
  const rules = rulesAtLeaf(session);
  const rule = rules.find((one) => one.id === id);
  if (!rule)
    throw new EspalierError(
      "unknown-rule",
      `No rule ${JSON.stringify(id)} applies here; \`espalier rules\` lists those that do.`,
    );
  const told = customMessage.of({
    customType: RULE,
    content: `This rule no longer applies: ${rule.text}`,
    display: true,
  });
  if (session.isOnPath(id)) return [told, contextEdit.of({ targetId: id, replacement: null })];
  // Other rules of the same message get entries too, because a message with a rule entry is not searched again.
  const siblings = rules.filter(({ from }) => from.entryId === rule.from.entryId);
  const entries = siblings.map((one) => ({
    one,
    entry: custom.of({ id: createId(), customType: RULE, data: dataOf(one) }),
  }));
  const dropped = entries.find(({ one }) => one === rule)!.entry;
  return [
    told,
    ...entries.map(({ entry }) => entry),
    contextEdit.of({ targetId: dropped.id!, replacement: null }),
  ];
}

function dataOf({ text, kind, from, supersedes }: Rule): RuleData {
  const range: [number, number] = [from.start, from.end];
  return { text, kind, from: { entryId: from.entryId, range }, ...(supersedes ? { supersedes } : {}) };
}
