// Separate from speech.ts: it has only words and patterns, no entries.
import { replaceElements } from "./transcript.ts";

/**
 * Force of a rule. `never` forbids, `always` demands, `refused` is a call that the user stopped, `correction` corrects
 * an error of an answer, `preference` is a wish; `allowed` cancels a rule, and is dropped when there is no rule to
 * cancel.
 */
export type RuleKind = "never" | "always" | "refused" | "correction" | "preference" | "allowed";

/** A clause of a user's message that restricts later work. */
export interface FoundRule {
  /** The clause, with runs of blanks as single spaces. */
  text: string;
  kind: RuleKind;
  /** Start and end of the clause in the message's text, in UTF-16 code units. */
  range: [number, number];
}

/** Longest message that is read whole, in characters. Of a longer message, usually pasted, only both ends are read. */
const LONGEST_MESSAGE = 24_000;

/**
 * Longest message in which every mention of a duty counts, in characters; a longer one is a document with duties of its
 * own.
 */
const LONGEST_PROMPT = 6_000;

/** Maximum number of rules of one message. */
const MOST_RULES = 20;

/** Longest clause that is a rule, in characters. Rules that people type are short. */
const LONGEST_RULE = 320;

/**
 * Finds the clauses of a user's text that restrict later work, in English, Korean and Chinese. Deterministic, linear in
 * the text. Code, quotations, tags, logs and questions are left out. A clause that may apply to one occasion only is
 * not a rule.
 */
export function findRules(text: string): FoundRule[] {
  return partsToRead(text)
    .flatMap(([offset, part]) =>
      ANY_CUE.test(part) || HAN_OR_HANGUL.test(part) ? rulesIn(part, offset) : [],
    )
    .slice(0, MOST_RULES);
}

/** Returns the parts of a message to read, each with its offset: the whole message, or both ends of a long one. */
function partsToRead(text: string): [number, string][] {
  if (text.length <= LONGEST_MESSAGE) return [[0, text]];
  const half = LONGEST_MESSAGE / 2;
  return [
    [0, text.slice(0, half)],
    [text.length - half, text.slice(-half)],
  ];
}

function rulesIn(text: string, offset: number): FoundRule[] {
  const typed = replaceElements(text, OPENING_TAG, blank);
  const said = NOT_OWN.reduce((left, pattern) => left.replace(pattern, blank), typed);
  const isDocument = said.length > LONGEST_PROMPT && said.replace(/\s+/g, " ").length > LONGEST_PROMPT;
  const found: FoundRule[] = [];
  let isCorrecting = false;
  for (const [start, end] of sentences(said)) {
    const sentence = said.slice(start, end);
    const rule = judged(sentence, isCorrecting, isDocument ? STANDING_RULE : ANY_RULE);
    isCorrecting ||= found.length === 0 && CORRECTS.test(sentence);
    if (!rule || (isDocument && !rule.isStanding)) continue;
    const [from, to] = [start + rule.range[0], start + rule.range[1]];
    const range: [number, number] = [offset + from, offset + to];
    found.push({ text: text.slice(from, to).replace(/\s+/g, " "), kind: rule.kind, range });
  }
  return found;
}

const blank = (text: string): string => text.replace(/[^\n]/g, " ");

/** Elements, in which agents and shells put their own words. */
const OPENING_TAG = /<([a-zA-Z][\w-]{1,40})(?:\s[^<>\n]{0,200})?>/g;

/**
 * Patterns of text that is not the user's own: code, quoted lines, quotations, and lines of logs, tables, diffs and
 * data.
 */
const NOT_OWN = [
  /^[ \t]*(`{3,}|~{3,})[^\n]*\n[\s\S]*?(?:^[ \t]*\1[^\n]*$|$(?![\s\S]))/gm,
  /^[ \t]*(?:>|\||[+-] ?\d|@@|\{|\[\s*["{[]|at \S+ \(|\$ |❯|⏺|⎿|➜|✗|[─━═]{3}|(?:ERROR|WARN(?:ING)?|INFO|DEBUG|TRACE|FATAL)\b).*$/gm,
  /^.{0,40}(?:\b(?:ERROR|WARN(?:ING)?|INFO|DEBU?G?|TRACE|FATAL|error|warning)\b(?:[:|\]]|\s{2,})|\d\d:\d\d:\d\d).*$/gm,
  /^[ \t]*\S+:\d+:\d+\b.*$/gm,
  /^(?: {4,}|\t).*$/gm,
  /"[^"\n]{12,400}"|“[^”\n]{8,400}”|「[^」\n]{4,400}」|(?<![\w`])`[^`\n]{24,400}`/g,
];

/**
 * Yields the ranges of the sentences of a text. A sentence also ends where a reason, a consequence or another task
 * begins.
 */
function* sentences(said: string): Generator<[number, number]> {
  let start = 0;
  for (const { index, 0: mark } of said.matchAll(BOUNDARY)) {
    const end = index + (SENTENCE_END.test(mark) ? 1 : 0);
    if (/\S/.test(said.slice(start, end))) yield [start, end];
    start = index + mark.length;
  }
  if (/\S/.test(said.slice(start))) yield [start, said.length];
}

const SENTENCE_END = /^[.!?。！？]/;

/** End of a sentence, or beginning of an independent part. A full stop inside a name or number does not count. */
const BOUNDARY =
  /[!?](?=[\s)"'”]|$)|\.(?=[\s)"'”]|$)(?<!\b(?:e\.g|i\.e|etc|vs|no)\.)|[。！？；;]|\n+| [—–-]{1,2} |,(?=\s+(?:so|but|because|since|cause|otherwise|as otherwise|and then|though|although)\b)/gi;

interface Judgement {
  kind: RuleKind;
  range: [number, number];
  /** True when the words apply beyond the current task. */
  isStanding: boolean;
}

/**
 * Returns the rule in a sentence; undefined when there is none. Of English sentences, only those that match `pattern`
 * are judged.
 */
function judged(sentence: string, isCorrecting: boolean, pattern: RegExp): Judgement | undefined {
  if (INTERRUPTED.test(sentence)) return { kind: "refused", range: whole(sentence), isStanding: true };
  return HAN_OR_HANGUL.test(sentence)
    ? judgedEastern(sentence)
    : judgedEnglish(sentence, isCorrecting, pattern);
}

/** Line that Claude Code writes when the user stops a call. */
const INTERRUPTED = /^\s*\[Request interrupted by user for tool use\]?\s*$/;
const HAN_OR_HANGUL = /[\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff]/;

/** Returns the range of a sentence without surrounding blanks and final punctuation. */
function whole(sentence: string): [number, number] {
  let end = sentence.length;
  while (end > 0 && ENDS_CLAUSE.test(sentence[end - 1]!)) end--;
  return [sentence.search(/\S/), end];
}

const ENDS_CLAUSE = /[\s.!,;:。！，；：]/;

// English ------------------------------------------------------------------------------------------------------------

function judgedEnglish(sentence: string, isCorrecting: boolean, pattern: RegExp): Judgement | undefined {
  const [start, end] = whole(sentence);
  const lead = LEAD.exec(sentence.slice(start, end))![0].length;
  const from = start + lead;
  const words = sentence.slice(from, end);
  if (words.length > LONGEST_RULE || words.split(/\s+/, 2).length < 2) return undefined;
  const denies = DENIES.test(sentence.slice(start, from));
  if (!denies && !pattern.test(words)) return undefined;
  const isQuestion = words.endsWith("?");
  if (isQuestion && !ASKED.test(words)) return undefined;
  const range: [number, number] = [from, end];
  if (!isQuestion && ALLOWS.test(words)) return { kind: "allowed", range, isStanding: true };
  if (NO_RULE.test(words)) return undefined;
  const isStanding = STANDING.test(words);
  if (FORBIDS.some((pattern) => pattern.test(words))) return { kind: "never", range, isStanding };
  if (PREFERS.test(words)) return { kind: "preference", range, isStanding };
  if (isStanding || DEMANDS.some((pattern) => pattern.test(words))) {
    const isCorrection = isCorrecting && !isStanding;
    return { kind: isCorrection ? "correction" : "always", range, isStanding };
  }
  if (CONTRASTS.test(words) || (denies && !isQuestion && SETS_RIGHT.test(words)))
    return { kind: isCorrecting || denies ? "correction" : "always", range, isStanding };
  return undefined;
}

/** A `no` before the clause itself. */
const DENIES = /\bno[,\s—–-]/i;

/** Words before the clause itself. */
const LEAD =
  /^(?:(?:ok(?:ay)?|hm+|well|yes|yeah|yep|no(?=\s*[,.!:—–])|nope|nah|also|and|but|so|oh|ah|great|cool|thanks|thx|please|pls|plz|just|then|fine|sorry|wait|stop(?=\s*[,.!:—–])|omfg|omg|wtf|(?:my )?dude|hey|hi|right|sure|alright|perfect|nice|fyi|again|first|one more thing|by the way|btw|note|ps|actually|as I said|like I said|reminder|update|before you start|[-*•]|\d+[.)])(?:[\s,:.!—–-]+))*/i;

/** Beginning of a message that rejects an answer. */
const CORRECTS =
  /^\W*(?:hm+,? )?(?:no|nope|wrong|that'?s (?:wrong|not)|that is (?:wrong|not)|not like that|I (?:didn'?t|did not) (?:ask|mean|want)|why did you|you (?:got|misunderstood|fucked))\b/i;

/** Questions that ask for a lasting behaviour. */
const ASKED =
  /^(?:can|could|would|will) you (?:please )?(?:always|never(?! (?:see|find|read))|not|stop \w+ing|only|avoid|keep)\b|\bfrom now on\b|\bwe(?:'d| had)? (?:agreed|decided|settled) on\b/i;

const ALLOWS =
  /\byou (?:can|may|are allowed to|have permission to)\b.*\b(?:now|again|after all|from now on|from here on)\b|\b(?:now|after all)\b.{0,12}\byou (?:can|may)\b|\b(?:is|are|it'?s|'s) (?:(?:now|also) )?(?:ok(?:ay)?|fine|allowed|permitted) (?:now|again|after all|from now on|from here on)\b|\bnow (?:ok(?:ay)?|fine|allowed)\b|\b(?:forget|ignore|scrap|drop|lift|cancel|take back) (?:about )?(?:the|that|my|what) .{0,40}\b(?:rule|restriction|ban|limit|said|told)\b|\bno longer (?:forbidden|required|necessary|needed|a rule)\b|\b(?:no need to|don'?t (?:have|need) to) .{2,60} (?:any ?more|any longer|now)\b|\bfeel free to\b/i;

/** Clauses that have the words of a rule but are not rules. */
const NO_RULE =
  /^(?:(?:is|are|does|do (?:you|we|they|I)|did|why|how|what|who|when(?:ever)? (?:I|it) |where|which|isn'?t|aren'?t|doesn'?t|I (?:never(?! want)|always|don'?t(?! ever want)|do not|didn'?t|have|had|was|think|guess|suppose|wonder|just|already|pushed|noticed|saw)|it (?:never|always|must have|should (?:be )?(?:work|fine|ok))|they (?:never|always|don'?t)|he|she|never ?mind|no (?:idea|problem|worries|need|rush|way|one|matter|luck|changes?|thanks|clue|doubt|wait|longer|it|that|this|wonder|response|output|errors?)\b|remember when|remember how|if you (?:want|like|need|have))\b)|\b(?:must|should|may|could|would) have\b|\bdon'?t (?:worry|bother|mind|know|think|understand|care|get it|see|you|we|they|be sorry|look|work|panic)\b|\bnever (?:mind|heard|saw|seen|managed|had|got|been|was|were|happened|worked|did|knew)\b|\b(?:has|have|had|was|were) (?:never|always)\b|\b(?:it|that|this|he|she|they|which|who|I|we all) always\b|\b(?:you|we|I) (?:can|could) always\b|\b(?:it|that|this|they|which) can only\b|^(?:I'?m )?(?:just )?curious\b|^add (?:a|one) (?:comment|line|note)\b.{0,12}\b(?:saying|says|with|like)\b|^no (?:code|coding|implementation|edits?|fix(?:es)?)(?: \w+)? yet$|\bdon'?t (?:change|edit|write|fix|implement|code|start|touch|do|build) .{0,40}\byet\b|^(?:just |only )?(?:review|look|read|check|explain|investigate|analy[sz]e)\b.{0,30}, (?:but )?(?:don'?t|do not) (?:change|edit|touch|fix|modify)\b|\bbetter \w+ than (?:never|always)\b|^no [\w.-]+ then$|^(?:don'?t|do not) (?:change|edit|touch|fix|modify) anything(?: else)?(?:[,;.!]|$)|^(?:it|that|this) (?:shouldn'?t|mustn'?t|should not|must not)$|^must be (?:true|right|correct)$|^I(?:'ve| have)? changed my mind\b|\b(?:only|just) (?:for )?this (?:once|time|task)\b|\bfor this (?:time|task) only\b/i;

/** Words that apply beyond the current task. */
const STANDING =
  /\b(?:from (?:now|here|this point)(?: on(?:wards?)?)?|from this point (?:on|forward)|going forward|for the (?:rest|remainder) of|until (?:I|we) (?:say|tell)|(?:throughout|during) (?:this|the) (?:session|conversation|chat|project)|in this (?:session|conversation)|whenever|every time|each time|any ?time you|henceforth|^in future\b|in (?:the )?future(?! \w)|at all times|under (?:no|any) circumstances|at no (?:point|time)|in no case|no matter what|without exception|no exceptions|as a rule|always|never|ever again)\b/i;

const FORBIDS = [
  /\bnever\b|\bat no (?:point|time)\b|\bno circumstances\b|\bin no case\b/i,
  /^(?:.{0,60}(?:[,:]|\b(?:and|but|please|just|so|then|also|should|point on|now on|here on|forward|session|otherwise)))?\s*(?:don'?t|do not|dont|don’t) (?:you )?(?:ever |just |even |simply )?[a-z]+/i,
  /\bwe (?:don'?t|do not|no longer) (?:\w+ly )?(?:use|support|want|allow|do|commit|push|mock|ship|add|write|touch|accept|merge|deploy|store|log)\b/i,
  /^(?:(?:use\b|only\b|keep\b|from|for the|going|in this|until|please).{0,60}[,:] |.{0,60}\b(?:and|so|but) )?no (?:more |new |extra |additional |further )?[a-z][\w'-]*s?\b(?!,)/i,
  /^.{0,60}(?:\b(?:say|said|saying|told|repeat|rules?|clear|yes|right|agreed|good catch|stop|exactly)\b[^,:]{0,12})[,:] no (?!idea|problem|need|way|worries|rush|such|errors?|output)(?:more |new )?[a-z][\w-]+/i,
  /\bmay not (?:be )?(?:locked?|touch(?:ed)?|exceed(?:ed)?|edit(?:ed)?|import(?:ed)?|depend|contain|leave|commit(?:ted)?|push(?:ed)?|use[sd]?|chang(?:e|ed)|call(?:ed)?)\b/i,
  /\bnothing\b.{2,50}\b(?:above|over|outside|beyond|except|larger|bigger|longer|without)\b/i,
  /\bthat'?s the only (?:one|exception)\b/i,
  /\b(?:must|shall|you may|should) ?(?:not|n'?t|never)\b|\b(?:mustn|shouldn)['’]?t\b|\bnot (?:be )?(?:allowed|permitted|supposed|expected)\b|\b(?:forbidden|prohibited|off[- ]limits|hands off|verboten|banned)\b/i,
  /^(?:please )?stop \w+ing\b|^quit \w+ing\b/i,
  /\b(?:leave|keep)\b .{1,60}\b(?:alone|untouched|as (?:it|they) (?:is|are|was|were)|as is|unchanged|intact)\b/i,
  /\b(?:without|not) (?:asking|telling|my (?:ok|okay|approval|permission))\b/i,
  /\b(?:stays?|remains?) (?:as (?:it )?is|unchanged|untouched|raw)\b|\bonly (?:when|if|once|after) I (?:say|ask|tell|approve)\b/i,
  /\b(?:refrain from|steer clear of|off the table|be careful not to|code freeze|nobody touches|no one touches)\b/i,
  /^I (?:don'?t|do not) (?:want|like) (?:any|to see|you to|\w+ing|\w+s\b)/i,
  /^I (?:hate|can'?t stand) \w/i,
];

const PREFERS =
  /^(?:I(?:'d| would)? )?prefer\b|^I(?:'d| would) rather\b|^(?:try to )?avoid\b|\bwhere(?:ver)? possible\b|\bif possible\b|\bpreferably\b|^favou?r\b/i;

const DEMANDS = [
  /^(?:all|every|each|any|new)\b .{1,60}\b(?:must|should|has to|have to|needs? to|needs?|goes?|gets?|uses?|requires?|is to|are to|belongs?|lives?|stays?|shall)\b/i,
  /^(?!(?:I|we|you|it|the rest|this (?:plan|change|fix|patch|list|table|text|page|report|document|one))\b)[^,]{2,70}\b(?:must|has to|have to|shall|needs to be|is required|are required|is mandatory|are mandatory)\b/i,
  /\byou (?:must|have to|need to|should) (?:always|first|only)\b|^(?:you )?must\b(?! (?:be (?:the|an?|something|some|that|because)|have)\b)/i,
  /\b(?:make sure|ensure|be sure|take care|see to it) .{0,12}\b(?:you|that|to|all|every|each|no)\b.{0,60}\b(?:always|every|each|all|never|when(?:ever)?|before|after)\b/i,
  /^(?:remember|keep in mind|bear in mind|mind|don'?t forget)\b(?: that\b|:|,| to\b)/i,
  /\bit(?:'s| is) (?:important|essential|crucial|vital|critical|key) (?:that|to)\b/i,
  /\b(?:ask|check with|consult|warn|tell) (?:me|us)? ?(?:first|before|instead)\b|\bask before\b|\bask (?:me )?for (?:permission|approval)\b|\b(?:show|tell|ask|let) me .{0,40}\bbefore\b|\btell me .{0,20}\binstead of\b|\bbefore you (?:say|commit|push|delete|merge|apply|change|touch|run|install)\b/i,
  /\bwe(?:'ve| have)? (?:only|always|agreed|decided|settled)\b|\b(?:our|the) (?:convention|policy|rule|standard|house style|style guide) (?:is|says|here)\b/i,
  /^we (?:use|write|say|name|call|keep|deploy|test|commit|release|log|store)\b.*(?:\bhere\b|, not\b|\bin this (?:repo|project|team|code ?base)\b|\bonly\b)/i,
  /^I (?:want|expect|need|would like|'d like) (?:you to (?:always|never|not|only|stop|use|keep|ask|avoid|answer)|all|every|each|no|only|(?:commit|code|test|error|log|file|function|variable|class)? ?(?:messages|answers|comments|names|tests|diffs|functions|files|commits|responses|explanations)\b)/i,
  /^(?!draft|translate).*\b(?:answer|answers|reply|replies|respond|speak|talk|explain|write|comments?)\b.{0,24}\bin (?:english|german|french|spanish|korean|chinese|japanese|italian|portuguese|russian|dutch|polish|turkish|british|american|plain|simple|full sentences|bullet)/i,
  /^(?:answer|reply|respond|explain|write)\b.{0,16}\b(?:short(?:er|ly)?|brief(?:ly)?|concise(?:ly)?|in detail)\b|\b(?:one|a single) [a-z]+ at a time\b/i,
  /^(?!.*\b(?:it|is|are|was|were|fails?|breaks?|broken|I|we|looks?|appears?|'s)\b)[\w' -]{3,50},? everywhere$/i,
  /\b(?:change|edit|fix|use|run|call|write|put|update) [\w/.` -]{2,40} instead$/i,
  /^(?:let'?s )?stick (?:to|with)\b|^(?:limit|restrict|confine) (?:yourself|your|the|all|changes|edits)\b|\b(?:get|wait for|need) my (?:ok|okay|go|go-ahead|approval|permission|sign[- ]?off)\b|\b(?:exclusively|strictly)\b|\bmake it a habit\b|\bchanged my mind\b/i,
  /^(?:[\w/.-]+ ){1,6}(?:(?:start|begin|end)s? with|goes? (?:in|into|under|through|to|out as)|belongs? (?:in|to|under)|lives? (?:in|under)|stays? (?:in|inside|at|on|off|under|within|below|out of|outside|away from|with)|(?:is|are) always|gets? an?|(?:is|are) written in|may be at most|should always)\b/i,
  /\b(?:at most|no more than|no longer than|a maximum of|max(?:imum)?\.?) (?:\d+|one|two|three|four|five|six|seven|eight|nine|ten|twenty|\w+ty)\b(?=.{0,30}\b(?:lines?|characters?|chars?|words?|columns?|seconds?|retries|files?|levels?|arguments?|per)\b)/i,
  /^treat \S+(?: \S+)? as\b/i,
  /^keep (?!going|trying|it up|working|on\b|me posted|in touch|up\b)/i,
  /^use\b.+(?:\binstead\b|, not?\b|\beverywhere\b|\bonly\b|\bfor (?:all|every|each)\b|\brather than\b|\bthroughout\b)/i,
  /^only (?:ever |use |edit |change |touch |read |write |modify |run |commit |work |add |look )|\bonly ever\b|\bmay only\b|\bmust only\b|\bcan only\b|^[\w' -]{3,40}\bonly,? please$|^[\w' -]{3,30} diffs? only\b/i,
];

/** `X, not Y`, and `lists not tables`. */
const CONTRASTS =
  /^[a-z][\w'-]+(?: [\w-]+){0,2} (?<!\b(?:is|are|was|were|do|does|did|can|could|will|would|should|must|may|might|has|have|had|am|why|if|or|and|but|maybe|probably|still|just|really|it|that|this|I|you|we|they|think|guess|hope|\w+'s|'m|'re|better|certainly|definitely|of course|so|too|to|please) )not (?!(?:\w+ing|found|available|visible|there|possible|enough|ready|done|installed|supported|updated)\b)[a-z][\w-]+(?: [\w-]+){0,4}$|^[^?]{2,90}, (?:and )?not (?!sure|that|yet|bad|only|just|really|because|if|quite|even|to mention)[^,?]{1,50}$/i;

/** Words that may follow a `no,`: the correct fact or the desired behaviour. */
const SETS_RIGHT =
  /^(?!(?:that|it|this|wait|I|because|idea|the reason|there)\b)(?=.*\b(?:should|must|needs?|use|don'?t|keep|stays?|is|are|belongs?|goes)\b)(?:\S+\s+){2}/i;

/**
 * All patterns of {@link judgedEnglish} that make a clause a rule, as one: most clauses match none of them, and are read
 * only once.
 */
const ANY_RULE = anyOf(ALLOWS, STANDING, ...FORBIDS, PREFERS, ...DEMANDS, CONTRASTS);

/** The patterns of rules that apply beyond the current task: only these count in a document. */
const STANDING_RULE = anyOf(ALLOWS, STANDING);

function anyOf(...patterns: RegExp[]): RegExp {
  return new RegExp(patterns.map(({ source }) => source).join("|"), "i");
}

// Korean and Chinese -------------------------------------------------------------------------------------------------

/**
 * Judges a Korean or Chinese sentence. Commas separate clauses; the rule reaches from the first clause with a cue to
 * the last.
 */
function judgedEastern(sentence: string): Judgement | undefined {
  // A question like "Did we not agree on …?" repeats a rule.
  if (ASKS_EASTERN.test(sentence) && !/说好|기로 했/.test(sentence)) return undefined;
  let kind: RuleKind | undefined;
  let isStanding = false;
  let isLeading = false;
  let range: [number, number] | undefined;
  for (const { index, 0: clause } of sentence.matchAll(/[^，,、]+/g)) {
    const isNoRule = NO_RULE_EASTERN.test(clause) || OF_ONE_OCCASION.some((pattern) => pattern.test(clause));
    const found = isNoRule ? undefined : kindOfClause(clause);
    if (found || isLeading) {
      const [from, to] = whole(clause);
      // The denied clause comes after the correct one.
      range ??= /^\s*不是/.test(clause) && index > 0 ? [0, 0] : undefined;
      range = [
        range?.[0] ?? index + from + (LEAD_EASTERN.exec(clause.slice(from))?.[0].length ?? 0),
        index + to,
      ];
    }
    if (found && (kind === undefined || kind === "preference" || kind === "allowed")) kind = found;
    isLeading = found !== undefined && LEADS_EASTERN.test(clause);
    isStanding ||= found !== undefined && STANDING_EASTERN.test(clause);
  }
  if (!kind || !range || range[1] - range[0] > LONGEST_RULE || range[1] - range[0] < 4) return undefined;
  return { kind, range, isStanding };
}

function kindOfClause(clause: string): RuleKind | undefined {
  if (ALLOWS_EASTERN.test(clause)) return "allowed";
  if (FORBIDS_EASTERN.test(clause)) return "never";
  if (PREFERS_EASTERN.test(clause)) return "preference";
  if (CONTRASTS_EASTERN.test(clause)) return "correction";
  return DEMANDS_EASTERN.test(clause) ? "always" : undefined;
}

const LEAD_EASTERN =
  /^(?:不过|但是|但|另外|还有|那么|所以|请|그리고|하지만|그런데|다만|단|아니요|아뇨|그게 아니라)\s*/;

const ASKS_EASTERN =
  /[?？]\s*$|(?:吗|呢|么)\s*[。.]?$|(?:为什么|怎么|什么原因|是不是|能不能|要不要|哪[几些][条个])|(?:나요|까요|ㄹ까|는가|은가|던가|하죠|되죠)\s*[.]?$|^\s*왜\s/;

const NO_RULE_EASTERN =
  /(?:不用|不要|别|无需)(?:太|再)?(?:担心|急|慌|客气|管我)|(?:不要紧|别人|别的|从来没|从不知道|要不然|특별히 문제)|(?:걱정|신경|미안해|놀라|염려)(?:은|는|을|를)?\s*(?:하지|쓰지|마|말)/;

/**
 * Clauses in Chinese or Korean that are no rule for later work: a remark on what code does each time, a refusal that
 * only points at something, work that must not begin yet, a report that something does not work, a choice, and the text
 * of a comment.
 */
const OF_ONE_OCCASION = [
  /(?:매번|때마다|항상|언제나).*(?:네요|군요|거든요|잖아요|대요|더라고?요?|[는은던]데요?)\s*[.!]?\s*$|(?:매번|때마다).*(?<!말)고요\s*[.!]?\s*$/,
  /^\s*(?:아니요?\s*)?(?:그건|그거는?|이건|이거는?|저건|그러면|이러면|그렇게(?: 하면)?|이렇게(?: 하면)?)\s*(?:절대\s*)?안\s*(?:돼요?|됩니다|된다)|^\s*(?:그렇게|이렇게)?\s*(?:그러지|이러지|하지)\s*(?:마세요|마라|말아요?|마)\s*[.!]?\s*$|^\s*(?:不要|别)(?:再)?(?:这样|那样)(?:做|了)?\s*[.!]?\s*$/,
  /(?:아직|일단은?|우선은?).*(?:고치|수정하|바꾸|변경하|건드리|손대|작성하|구현하|만들|시작하)지\s*(?:는|도)?\s*(?:마|말)|(?:先|暂时|目前|还)(?:都)?(?:不要|别|不用)(?:急着|动手|开始|直接)*(?:改|写|动|修|做|实现)/,
  /(?:빌드|로그인|접속|실행|컴파일|설치|저장|동작|작동|연결|업로드|다운로드|검색)도?\s*(?:아직\s*)?안\s*(?:돼|됩|되)|不能(?:正常[^，。]{1,4}|(?:用|使用|写入|访问|运行|工作)了)\s*[。.!！]?\s*$/,
  /总是.{0,12}(?:失败|报错|出错|崩溃|超时|卡住)|用(?:第[一二三四五\d]|[这那])(?:个|种)?(?:方案|办法|方法|选项)|[加写](?:上|一)?[行个条]?注释\s*[:：]|까지만\s*(?:해|하)|^\s*(?:아니요?\s*)?(?:그|이|저)(?:거|것|\s\S{1,6})\s*말고/,
  /때마다.*(?:물어|와|보내|들어와|생겨|걸려|느려)\S{0,2}요\s*[.!]?\s*$|^\s*(?:제가|저는|저희는)\s.*(?:것|거)\s*[.!]?\s*$|그냥\s.*기로 했|앞으로도.*(?:있을|생길|나올)\s*(?:거|것)(?:라|니까|이라)|말고.*먼저\s*(?:보여|알려|말해)\s*주세요|建议|别(?:折腾|为难|麻烦)/,
];

const STANDING_EASTERN =
  /以后|今后|从现在|从今|从此|每次|永远|始终|总是|一律|任何情况|绝不|绝对|千万|一定|务必|这次会话|整个会话|앞으로|이제부터|지금부터|항상|언제나|매번|반드시|꼭|무조건|절대|때마다|세션|어떤 경우/;

/** A clause that names an occasion: the action to do then is in the next clause. */
const LEADS_EASTERN =
  /(?:开始|以后|今后|之前|之后|的?时候|每次.*|会话里?|情况下)\s*$|(?:앞으로|이제부터|지금부터|때마다|때는|전에는|전에|동안|동안에는|경우에도)\s*$|^\s*(?:请|先)?记住\s*$/;

const ALLOWS_EASTERN =
  /(?:现在|已经|以后)?(?:可以|能|允许|准许).{0,24}了\s*$|(?:不用|不必|无需|不需要)再|(?:取消|忘掉|忽略).{0,16}(?:规则|限制|要求|规定)|(?:이제|지금은|앞으로는?|다시).{0,40}(?:해도|써도|도)\s*(?:돼|됩|되|괜찮|좋)|(?:규칙|제한|금지).{0,10}(?:취소|해제|무시|잊)/;

const FORBIDS_EASTERN =
  /不要|(?<![区分级类性特个差识])别(?!人|的|处|名|是|墅|致)|勿|禁止|不准|不许|不允许|不得|不可以|严禁|切勿|千万|绝不|绝对不|不能(?=.{0,12}(?:改|写|用|删|动|推|提交|引入|出现|包含|直接|超过|少于|大于|锁|阻塞))|都不能|不想再(?:看|见)|保持不变|不超过|지\s*않게\s*(?:해|하|주)|지\s*(?:는|도|를)?\s*(?:마(?:세요|십시오|라|요|시|셔|$|[\s.!,])|말(?:고|아|라|\s?것|도록|기|자))|지\s*않도록|면\s*안\s*(?:돼|됩|되|된)|(?<![이가]\s*)안\s*(?:돼요|됩니다|된다|돼)(?=\s*[.!]?\s*$)|금지|절대|삼가|그만\s*(?:해|하|둬|두)/;

const PREFERS_EASTERN =
  /尽量|最好|优先|宁可|更喜欢|偏好|가급적|되도록|가능하면|선호|웬만하면|보다.{2,40}(?:좋아요|좋습니다|좋겠|나아요|낫)/;

const CONTRASTS_EASTERN =
  /(?:是|用|要|改成).{1,24}(?:而不是|不是|不用)|^\s*不是.{1,20}$|(?:이|가)\s*아니(?:라|고)(?:\s*\S|\s*$)|\S\s*대신\s.{1,24}(?:써|쓰세|쓰고|사용)|[가-힣A-Za-z)]\s+말고\s+\S/;

const DEMANDS_EASTERN =
  /^\s*提交(?:信息|说明|标题)\S{0,4}(?:带|加|用|写)|그대로\s*(?:두|놔두|유지하)(?:세요|시고|고)|必须|务必|一定要|一定得|一律|统一(?:用|使用|为|放|写)|总是|始终|每次(?!都(?:失败|报错|出错))|以后(?:请|都|要|用|不|别)|今后|从现在(?:开始|起)|从今|从此|接下来都|只(?:能|准|许|改|用|读|在)|都(?:要|得|应该|控制|用|写|必须)|请?用(?:中文|英文|英语|韩语|日语)|用(?:中文|英文|英语)(?:写|回答|回复)|(?:中文|英文|英语)(?:写|回答|回复)|先(?:问|征求|确认|告诉|给我看|让我看)|就用(?!这|那|它|他|吧)|只负责|由我来|以后.{1,20}(?:时候|时)|说好|(?:控制|保持|限制)在.{1,14}(?:以内|之内|以下)|行以内|回答.{0,4}(?:短|简短|简洁|详细)|确保|保证|记住|앞으로|이제부터|지금부터|항상|언제나|매번|반드시|꼭|무조건|때마다|[가-힣]야\s*(?:합|해|한다|돼|됩|된다|하)|(?:한국어|영어|중국어|일본어|반말|존댓말)(?:로|으로)|(?:로|으로)만\s|만\s*(?:사용|써|쓰|지어|수정|바꾸|읽)|(?:먼저|미리).{0,8}(?:물어|확인|알려|말해)|(?:세션|대화)\s*(?:동안|내내|끝까지)|유지(?:해|하)|잊지\s*마|기억해|까지만\s*(?:하|해)|하나만(?:요|이에요|입니다)|기로\s*(?:했|하죠|합시다)|(?:전에|마다).{0,16}(?:보여|물어|알려)|(?:답변|대답|설명)(?:은|을|는)?.{0,12}(?:짧게|간단|간결|자세히)/;

/**
 * Cue words: an English text without any of them matches no pattern of a rule, so that most messages are read only once.
 * A new pattern needs a cue here. The plain words come first, because V8 searches neighbouring plain words together.
 * Without the Unicode flag, which makes it five times slower.
 */
const ANY_CUE =
  /\b(?:I 'd like|I expect|I need|I want|I would like|agreed|allowed|always|any time|anytime|as a rule|ask first|ask for|ask me|at a time|at all times|at most|avoid|banned|be sure|before|begin with|begins with|belong|belongs|brief|briefly|can't stand|cant stand|changed my|circumstances|concise|concisely|confine|convention|critical|crucial|decided|do not|don't|dont|don’t|each time|end with|ends with|ensure|essential|ever again|every time|everywhere|exclusively|favor|favour|feel free|for all|for each|for every|for the remainder|for the rest|forbidden|freeze|from here|from now|from this point|future|get a|get an|gets a|gets an|going forward|habit|hate|henceforth|important|in american|in british|in bullet|in chinese|in detail|in dutch|in english|in french|in full|in german|in italian|in japanese|in korean|in plain|in polish|in portuguese|in russian|in simple|in spanish|in turkish|instead|interrupted|keep|key that|key to|leave|limit|make sure|mandatory|max|maximum|mind|my approval|my go|my ok|my okay|my permission|need to|needs to be|never|no|nobody|not|nothing|off|only|our house style|our rule|our standard|our style|permission|permitted|policy|possible|prohibited|quit|rather|refrain|remain|remains|remember|required|restrict|see to it|settled|short|shorter|shortly|start with|starts with|stay|stays|steer|stick|stop|strictly|take care|the chat|the conversation|the house style|the project|the rule|the session|the standard|the style|this chat|this conversation|this project|this session|throughout|treat|until I|until we|verboten|vital|whenever|without asking|without exception|without my|without telling|written in|must\w*|shall\w*|should\w*|prefer\w*|ha(?:s|ve) to|ask (?:me|us)? ?(?:first|before|instead)|check with (?:me|us)? ?first|consult (?:me|us)? ?first|warn (?:me|us)? ?(?:first|before|instead)|tell (?:me|us)? ?(?:first|before|instead)|we (?:use|write|say|name|call|deploy|test|commit|release|log|store)|my sign\w*|goes? (?:in|into|under|through|to|out)|lives? (?:in|under)|you can|you may\w*|ok(?:ay)? (?:now|again|after|from)|fine (?:now|again|after|from)|now ok(?:ay)?|now fine|take back|(?:forget|ignore|scrap|drop|lift|cancel) (?:about|the|that|my|what)|(?:all|every|each|any|new) .{1,60}\b(?:needs?|goes?|gets?|uses?|requires?|is to|are to|lives?))\b/i;
