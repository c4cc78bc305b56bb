import {
  branchSummary,
  CHARS_PER_TOKEN,
  type ContextMessage,
  compaction,
  contextEdit,
  type Entry,
  isCustom,
  isMessage,
  isRecord,
  messageText,
  type ToolCallBlock,
  toolCalls,
} from "@espalier/session-tree";
import { cutText, escapeText, type FoundRule, findRules, type RuleKind } from "@espalier/summarizer";

/** The `customType` of entries that record a rule of the user. */
export const RULE = "espalier.rule";

/** A rule of the user that applies at an entry of a path. */
export interface Rule {
  /** Id of its entry. A rule without an entry is named by its message and its start: `<entry id>:<start>`. */
  id: string;
  text: string;
  kind: RuleKind;
  /** Source: offsets in the text of a user's message (text blocks joined by newlines). */
  from: { entryId: string; start: number; end: number };
  /** Id of the rule that it replaced; null when it replaced none. */
  supersedes: string | null;
}

/** Data of a rule's entry. */
export interface RuleData {
  /** The rule; empty when the message was read and a handler of `rules_found` removed all of its rules. */
  text: string;
  kind: RuleKind;
  from: { entryId: string; range: [number, number] };
  supersedes?: string;
}

/** Options of {@link rulesOn}. */
export interface RulesOnOptions {
  /** False: messages without recorded rules are not searched. Default true. */
  isFinding?: boolean;
}

/**
 * Returns the rules that apply at the end of a path, oldest first. The path is root first; its end from a compaction
 * with recorded rules on is enough. Rules come from entries, from records in compactions and branch summaries, and from
 * messages whose rules were never recorded. Pure.
 */
export function rulesOn(path: readonly Entry[], options: RulesOnOptions = {}): Rule[] {
  return ruleStateOn(path, options).rules;
}

/**
 * Reads the rules along a path. A caller that keeps the state at an entry gives both as `known`: then only the entries
 * after that entry are read. The given state is copied, not changed.
 */
export function ruleStateOn(
  path: readonly Entry[],
  { isFinding = true }: RulesOnOptions,
  known?: { entryId: string; state: RuleState },
): RuleState {
  const state = new RuleState(known?.state);
  const start = known === undefined ? 0 : path.findLastIndex(({ id }) => id === known.entryId) + 1;
  const recorded = new Set(path.flatMap((entry) => ruleOf(entry)?.from.entryId ?? []));
  for (const [at, entry] of path.entries()) {
    if (at < start) continue;
    if (isMessage(entry, "user")) {
      if (!isFinding || recorded.has(entry.id)) continue;
      const inMessage = foundIn(entry, () => path.slice(0, at));
      if (inMessage.found.length === 0) continue;
      for (const data of newRules(state.rules, inMessage)) state.add(ruleFrom(data, idOf(data)));
    } else if (contextEdit.is(entry)) state.edit(entry.targetId, entry.replacement === null, entry.reason);
    else if (compaction.is(entry)) state.takeAll(rulesIn(entry.details) ?? []);
    else if (branchSummary.is(entry)) for (const rule of rulesIn(entry.details) ?? []) state.take(rule);
    else {
      const data = ruleOf(entry);
      if (data && data.text !== "") state.add(ruleFrom(data, entry.id));
    }
  }
  return state;
}

/** Collects the rules along a path. Two rules with the same source are one. */
export class RuleState {
  readonly #held: Map<string, Rule>;
  readonly #dropped: Map<string, Rule>;

  constructor(before?: RuleState) {
    this.#held = new Map(before ? before.#held : []);
    this.#dropped = new Map(before ? before.#dropped : []);
  }

  /** Rules that apply, oldest first. */
  get rules(): Rule[] {
    return [...this.#held.values()];
  }

  /** Adds a rule, which ends the one that it supersedes. */
  add(rule: Rule): void {
    if (rule.supersedes !== null) this.#drop(({ id }) => id === rule.supersedes);
    const source = sourceOf(rule);
    this.#dropped.delete(source);
    this.#held.set(source, rule);
  }

  /** Adds the rules that a compaction recorded: they come first, in its order, because the path may begin after them. */
  takeAll(rules: readonly Rule[]): void {
    for (const rule of rules) this.take(rule);
    const sources = new Set(rules.map(sourceOf));
    const ordered = [...sources].flatMap((source) => this.#held.get(source) ?? []);
    const others = this.rules.filter((rule) => !sources.has(sourceOf(rule)));
    this.#held.clear();
    for (const rule of [...ordered, ...others]) this.#held.set(sourceOf(rule), rule);
  }

  /** Adds a rule that a summary recorded, unless a rule with the same source is held or was removed. */
  take(rule: Rule): void {
    if (!this.#held.has(sourceOf(rule)) && !this.#dropped.has(sourceOf(rule))) this.add(rule);
  }

  /** Applies an edit of a rule's entry, or a user's edit of its source message: removes the rule, or restores it. */
  edit(targetId: string, isLeftOut: boolean, reason: "manual" | undefined): void {
    const isMeant = ({ id, from }: Rule) =>
      id === targetId || (reason === "manual" && from.entryId === targetId);
    if (isLeftOut) this.#drop(isMeant);
    else for (const rule of [...this.#dropped.values()].filter(isMeant)) this.add(rule);
  }

  #drop(isMeant: (rule: Rule) => boolean): void {
    for (const [source, rule] of this.#held) {
      if (!isMeant(rule)) continue;
      this.#held.delete(source);
      this.#dropped.set(source, rule);
    }
  }
}

const sourceOf = ({ from }: Rule): string => `${from.entryId}:${from.start}`;
const idOf = ({ from }: RuleData): string => `${from.entryId}:${from.range[0]}`;

/** Returns the rule with this id that an entry's data describe. */
export function ruleFrom({ text, kind, from, supersedes }: RuleData, id: string): Rule {
  const [start, end] = from.range;
  return { id, text, kind, from: { entryId: from.entryId, start, end }, supersedes: supersedes ?? null };
}

/** Returns the data of a rule's entry; undefined for other entries, and for invalid data. */
export const ruleOf = (entry: Entry): RuleData | undefined =>
  isCustom(entry, RULE) ? dataIn(entry.data) : undefined;

function dataIn(data: unknown): RuleData | undefined {
  if (!isRecord(data) || !isRecord(data["from"])) return undefined;
  const { text, kind, from, supersedes } = data;
  const { entryId, range } = from as Record<string, unknown>;
  if (typeof text !== "string" || typeof entryId !== "string") return undefined;
  // The entry of a rule has a range. The record of a summary has `start` and `end` instead.
  const [start, end] = Array.isArray(range) ? (range as unknown[]) : [from["start"], from["end"]];
  return {
    text,
    kind: RULE_KINDS.find((known) => known === kind) ?? "always",
    from: { entryId, range: [numberOr(start, 0), numberOr(end, text.length)] },
    ...(typeof supersedes === "string" ? { supersedes } : {}),
  };
}

const numberOr = (value: unknown, fallback: number): number =>
  Number.isSafeInteger(value) ? (value as number) : fallback;

/** Returns the rules in the `details` of a compaction or a branch summary; undefined when none were recorded. */
export function rulesIn(details: unknown): Rule[] | undefined {
  if (!isRecord(details) || !Array.isArray(details["rules"])) return undefined;
  return (details["rules"] as unknown[]).flatMap((one) => {
    const data = dataIn(one);
    const { id } = (one ?? {}) as { id?: unknown };
    return data && typeof id === "string" ? [ruleFrom(data, id)] : [];
  });
}

/** Kinds by force, strongest first: rules that do not fit into the block are left out from the end. */
export const RULE_KINDS: readonly RuleKind[] = [
  "never",
  "always",
  "refused",
  "correction",
  "preference",
  "allowed",
];

/** Rules found in one message of the user, ready to be compared with the current rules. */
export interface FoundInMessage {
  entryId: string;
  found: readonly FoundRule[];
}

/**
 * Finds the rules in a user's message.
 *
 * @param above returns the path above the message; called only for a refusal, to find the refused call. A refusal
 * without a known call is left out
 */
export function foundIn(entry: Entry, above: () => readonly Entry[]): FoundInMessage {
  const found = isMessage(entry, "user") ? findRulesOnce(entry.message) : [];
  if (found.every(({ kind }) => kind !== "refused")) return { entryId: entry.id, found };
  const call = refusedCall(above());
  const named = (rule: FoundRule) =>
    rule.kind !== "refused" ? [rule] : call ? [{ ...rule, text: refusalOf(call) }] : [];
  return { entryId: entry.id, found: found.flatMap(named) };
}

/** Results of {@link findRulesOnce}, each with the text that was searched. */
const searched = new WeakMap<ContextMessage, { text: string; found: readonly FoundRule[] }>();

/**
 * Finds the rules in the text of a message. The result is kept with the message, because each prompt with a rule looks
 * at all messages above it.
 */
export function findRulesOnce(message: ContextMessage): readonly FoundRule[] {
  const text = messageText(message);
  const known = searched.get(message);
  if (known?.text === text) return known.found;
  const found = findRules(text);
  searched.set(message, { text, found });
  return found;
}

/**
 * Returns the newest call that the user refused; undefined when the user stopped a call that was running, or postponed
 * it. Claude Code writes the same line in all three cases.
 */
function refusedCall(path: readonly Entry[]): ToolCallBlock | undefined {
  const at = path.findLastIndex((entry) => isMessage(entry, "assistant"));
  const answer = path[at];
  if (answer === undefined || !isMessage(answer, "assistant")) return undefined;
  const stopped = new Set<string>();
  for (const entry of path.slice(at + 1))
    if (isMessage(entry, "toolResult") && STOPPED.test(messageText(entry.message)))
      stopped.add(entry.message.toolCallId);
  return toolCalls(answer.message).findLast(({ id }) => !stopped.has(id));
}

/** Result of a tool call that the user stopped or postponed, in the words of Claude Code. */
const STOPPED = /\[Request interrupted by user\b|\bdoesn't want to take this action right now\b/;

/** Maximum length of the quoted arguments of a refused call, in characters. */
const LONGEST_ARGUMENTS = 160;

const refusalOf = ({ name, arguments: args }: ToolCallBlock): string =>
  `The user refused this call: ${name} ${cutText(JSON.stringify(args ?? {}), LONGEST_ARGUMENTS, "head-tail")}`;

/**
 * Returns the new rules of a message, each with the rule that it replaces. Rules that already apply, and cancellations
 * without a rule to cancel, are left out.
 */
export function newRules(holding: readonly Rule[], { entryId, found }: FoundInMessage): RuleData[] {
  const added: RuleData[] = [];
  let rules = [...holding];
  for (const { text, kind, range } of found) {
    const match = matchOf({ text, kind }, rules, entryId);
    if (match === "same" || (match === undefined && kind === "allowed")) continue;
    const from = { entryId, range: [...range] as [number, number] };
    const data: RuleData = { text, kind, from, ...(match ? { supersedes: match.id } : {}) };
    added.push(data);
    rules = [...rules.filter((rule) => rule !== match), ruleFrom(data, idOf(data))];
  }
  return added;
}

type Worded = Pick<Rule, "text" | "kind">;

/**
 * Returns the rule that a new one replaces: the nearest by topic, and of equally near ones the newest. `same` when the
 * rule already applies; undefined when it replaces none.
 */
function matchOf(next: Worded, rules: readonly Rule[], entryId: string): Rule | "same" | undefined {
  const topic = topicOf(next.text);
  let best: { rule: Rule; nearness: number } | undefined;
  for (const rule of rules) {
    const old = topicOf(rule.text);
    if (isSame(topic, old) && rule.kind === next.kind) return "same";
    // A message does not cancel its own rules.
    if (rule.from.entryId === entryId || next.kind === "refused") continue;
    const nearness = replaces({ ...next, topic }, { ...rule, topic: old });
    if (nearness > 0 && nearness >= (best?.nearness ?? 0)) best = { rule, nearness };
  }
  return best?.rule;
}

/** Words that describe the topic of a rule. */
interface Topic {
  words: ReadonlySet<string>;
  /** Values of which a rule has only one: numbers and languages. */
  values: ReadonlySet<string>;
  /** Words that the rule rejects: those after `not` or `instead of`. */
  denied: ReadonlySet<string>;
}

/**
 * Returns the nearness of a new rule to an old one that it replaces, up to 1; 0 when it does not replace the old one.
 */
function replaces(next: Worded & { topic: Topic }, old: Worded & { topic: Topic }): number {
  const [words, oldWords] = [next.topic.words, old.topic.words];
  const shared = overlap(words, oldWords);
  // A long rule may mention the topic of a short one and still be about something else.
  const nearness = shared / Math.max(1, Math.min(words.size, oldWords.size));
  const isMutual = shared > 0 && shared / Math.max(words.size, oldWords.size) >= 0.4;
  if (next.kind === "allowed") {
    const isTakenBack = FORBIDS[old.kind] === true || RELEASES.test(next.text);
    return shared > 0 && nearness >= (isTakenBack ? 0.6 : 0.75) ? nearness : 0;
  }
  if (old.kind === "refused") return 0;
  const isOpposite = FORBIDS[next.kind] !== FORBIDS[old.kind];
  const wanted = [...oldWords].filter((word) => !old.topic.denied.has(word));
  if (!isOpposite && wanted.some((word) => next.topic.denied.has(word))) return 1;
  if (!isMutual || nearness < 0.6) return 0;
  const isRevalued =
    next.topic.values.size > 0 &&
    old.topic.values.size > 0 &&
    overlap(next.topic.values, old.topic.values) === 0;
  return isOpposite || isRevalued || CHANGES.test(next.text) ? nearness : 0;
}

/** Words that cancel a duty, not only a prohibition. */
const RELEASES =
  /\b(?:forget|ignore|scrap|drop|lift|cancel|take back|no longer|no need|(?:don'?t|do not) (?:have|need) to|without asking)\b|不用|不必|无需|不需要|取消|忘掉|忽略|취소|해제|무시|잊/i;

/** Kinds that forbid. */
const FORBIDS: Readonly<Partial<Record<RuleKind, true>>> = { never: true, refused: true };

/** Words of a change of mind. */
const CHANGES =
  /\b(?:instead|changed my mind|change of plans?|no longer|any ?more|after all|scratch that|from now on|now|again|switch(?:ed)? to|on second thou?ghts?)\b|改为|改成|改用|换成|还是用|现在|不再|从现在|대신|이제|바꿔|바꾸|지금부터|앞으로/i;

const isSame = (a: Topic, b: Topic): boolean =>
  a.words.size === b.words.size &&
  a.values.size === b.values.size &&
  overlap(a.words, b.words) === a.words.size &&
  overlap(a.values, b.values) === a.values.size &&
  a.words.size + a.values.size > 0;

function overlap(a: ReadonlySet<string>, b: ReadonlySet<string>): number {
  let shared = 0;
  for (const word of a) if (b.has(word)) shared++;
  return shared;
}

function topicOf(text: string): Topic {
  const words = wordsOf(text);
  const denied = [...text.matchAll(DENIED)].flatMap(([, part = ""]) => wordsOf(part));
  return {
    words: new Set(words.filter((word) => !VALUE.test(word))),
    values: new Set(words.filter((word) => VALUE.test(word))),
    denied: new Set(denied),
  };
}

const DENIED =
  /\b(?:not|instead of|rather than|no longer|over)\s+(?:in |the |a |an )?([\w-]+)|(?:而不是|不是|代替)([^，,。]{1,8})|([\p{L}\d]{1,12})\s*(?:말고|대신|(?:이|가) 아니라)/giu;

/**
 * Returns the words of a text in their short form, without those in `SMALL`; for Chinese, pairs of characters,
 * and for Korean, the first two characters of each word.
 */
function wordsOf(text: string): string[] {
  const words: string[] = [];
  for (const [word] of text
    .toLowerCase()
    .matchAll(/[\p{sc=Han}]+|[\p{sc=Hangul}]+|[a-z](?:[\w.'’]*\w)?|\d+/gu)) {
    if (/^\p{sc=Han}/u.test(word)) words.push(...pairsOf(word.replace(SMALL_HAN, "")));
    else if (/^\p{sc=Hangul}/u.test(word)) {
      if (!SMALL_HANGUL.test(word)) words.push(word.length <= 2 ? word : word.slice(0, 2));
    } else if (!SMALL.has(word)) words.push(stem(word));
  }
  return words;
}

const pairsOf = (word: string): string[] =>
  word.length < 3
    ? word
      ? [word]
      : []
    : Array.from({ length: word.length - 1 }, (_, at) => word.slice(at, at + 2));

const stem = (word: string): string =>
  VALUE.test(word) || word.length < 5 ? word.replace(/s$/, "") : word.replace(/(?:ing|ed|es|s|e)$/, "");

const VALUE =
  /^(?:\d+|one|two|three|four|five|six|seven|eight|nine|ten|twelve|fifteen|twenty|thirty|forty|fifty|hundred|english|german|french|spanish|korean|chinese|japanese|italian|한국어|영어|중국어|일본어|한국|중국|일본|中文|英文|英语|韩语|日语)$/;

/** Words that any rule can have, and that say nothing about its topic. */
const SMALL = new Set(
  "a an the and or but so if of to in on at by for from with without as is are be been being was were it its it's this that these those there here i i'd we you he she they me my our your us please always never not no don't do does did done dont mustn't must should shouldn't shall may can could would will have has had need needs want wants just only also then now again anymore more any all every each ever even ok okay fine allowed allow rest session point until say otherwise forward going instead than rather over into out up under use used using make sure remember keep stop avoid prefer future whenever when after before whole sorry changed change mind about everywhere instead".split(
    " ",
  ),
);
const SMALL_HAN =
  /[的了在也都要不请就是和把吧呢吗别勿]|现在|以后|可以|必须|务必|禁止|不准|不许|一定|任何情况|从现在开始|使用|允许|千万|直接|执行/g;
const SMALL_HANGUL =
  /^(?:이제|앞으로|항상|절대로?|반드시|꼭|해도|됩니다|돼요|괜찮아요|괜찮습니다|마세요|마십시오|말아|말고|주세요|해|줘|하지|안|수|것|하시면|실행하시면|합니다|해야|직접)$/;

// The block -----------------------------------------------------------------------------------------------------------

/** Maximum number of tokens of the block (characters / 4, including its tags). */
const MOST_RULE_TOKENS = 600;

const BLOCK_HEADING = "Rules of the user. Each holds until the user takes it back:";

/**
 * Returns the text of the block of rules, oldest first. Rules that do not fit are left out, the weakest and oldest
 * first, and the last line has their number.
 *
 * @param room in characters of escaped text
 */
export function rulesText(rules: readonly Worded[], room: number): string {
  if (rules.length === 0) return "";
  const lines = rules.map(({ text }) => `- ${text.replace(/\s+/g, " ")}`);
  const order = rules
    .map((_, at) => at)
    .sort((a, b) => RULE_KINDS.indexOf(rules[a]!.kind) - RULE_KINDS.indexOf(rules[b]!.kind) || b - a);
  const told = (shown: ReadonlySet<number>): string => {
    if (shown.size === 0) return `(rules left out: ${rules.length}; \`espalier rules\`)`;
    return [
      BLOCK_HEADING,
      ...lines.filter((_, at) => shown.has(at)),
      ...(shown.size < rules.length
        ? [
            `(${rules.length - shown.size} less binding or older ones are left out; \`espalier rules\` lists them.)`,
          ]
        : []),
    ].join("\n");
  };
  const shown = new Set(order);
  while (shown.size > 0 && escapeText(told(shown)).length > room) shown.delete(order[shown.size - 1]!);
  return told(shown);
}

/** Returns the maximum number of characters of the block for a limit in tokens; at most 600 tokens count. */
export const ruleRoom = (limitTokens: number): number =>
  Math.min(limitTokens, MOST_RULE_TOKENS) * CHARS_PER_TOKEN;
