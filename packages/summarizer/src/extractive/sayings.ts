import { stringCount } from "./exact-string.ts";
import { decisionStrength, ruleStrength } from "./markers.ts";
import { createRanking } from "./ranking.ts";
import { splitSentences } from "./sentences.ts";
import { gistOf } from "./user-words.ts";

/** Something that was said, the message it stands in, and how much it is worth repeating. */
interface Saying {
  text: string;
  at: number;
  score: number;
}

/** What users and the agent said that is worth repeating in their own words. */
export interface Sayings {
  request(words: string, at: number): void;
  answer(text: string, at: number): void;
  requests(): Saying[];
  /** Sentences of the user that stay in force. */
  rules(): Saying[];
  /** Sentences of the agent that say what was chosen, or why something is as it is. */
  decisions(): Saying[];
}

/** Kept of each; far more than a summary has room for. */
const CAPACITY = 60;
const LONGEST_SENTENCE = 400;

/** `messageCount` is what newness is measured against: the newest counts two points more than the oldest. */
export function createSayings(messageCount: number, focus: (text: string) => boolean): Sayings {
  const requests = createRanking<Saying>(CAPACITY);
  const rules = createRanking<Saying>(CAPACITY);
  const decisions = createRanking<Saying>(CAPACITY);

  function keep(ranking: typeof requests, text: string, at: number, worth: number): void {
    const score = worth + (2 * at) / Math.max(messageCount, 1) + (focus(text) ? 2 : 0);
    ranking.add({ text, at, score }, score);
  }

  return {
    request(words, at) {
      const gist = gistOf(words);
      keep(
        requests,
        words,
        at,
        Math.log1p(Math.min(gist.length, 400)) / 3 + 0.2 * Math.min(stringCount(gist), 5),
      );
      for (const rule of rulesIn(words)) keep(rules, rule.text, at, 1.5 * rule.strength);
    },
    answer(text, at) {
      for (const sentence of splitSentences(text)) {
        if (sentence.length < 24 || /[?？:：]$/.test(sentence) || !isRepeatable(sentence)) continue;
        const strength = decisionStrength(sentence);
        if (strength > 0) keep(decisions, sentence, at, strength + 0.3 * Math.min(stringCount(sentence), 3));
      }
    },
    requests: () => requests.items(),
    rules: () => rules.items(),
    decisions: () => decisions.items(),
  };
}

/** The sentences of a text that read like rules; a question is half of one at most. */
export function rulesIn(words: string): { text: string; strength: number }[] {
  return splitSentences(words).flatMap((text) => {
    const strength = ruleStrength(text) - (/[?？]$/.test(text) ? 1 : 0);
    return strength > 0 && isRepeatable(text) ? [{ text, strength }] : [];
  });
}

/** Prose of a length that can be repeated whole, not a pasted line of code or of a log. */
function isRepeatable(sentence: string): boolean {
  if (sentence.length < 6 || sentence.length > LONGEST_SENTENCE) return false;
  const letters = sentence.match(/\p{L}/gu)?.length ?? 0;
  return letters / sentence.length > 0.6 && !/[{};]\s*$/.test(sentence);
}
