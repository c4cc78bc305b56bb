// Work on texts, logs and histories that are built to be slow, at a size and at an eighth of it.
import { renderMarkdown, wrapText } from "../.work/cliMarkdown.mjs";
import { contextOf } from "../.work/requestHistories.mjs";
import * as sessionTree from "../.work/sessionTree.mjs";
import { readLog, slowHistories, slowLogs, slowUnits } from "../.work/slowInputs.mjs";
import { SLOW_TEXTS } from "../.work/slowTexts.mjs";
import { findRules } from "../.work/summarizer.mjs";

/** Colours that change nothing. */
const plainColours = new Proxy({}, { get: (_, name) => (name === "isColorSupported" ? false : String) });

/** Functions that read a text. */
const readers = {
  "markdown in the terminal": (text) => renderMarkdown(text, { columns: 100, colours: plainColours }),
  "text in columns": (text) => sessionTree.columnsOf(text) + wrapText(text, 100).length,
  redaction: sessionTree.redactText,
  "rules of the user": findRules,
};

const texts = Object.fromEntries([
  ...SLOW_TEXTS.map(({ name, text }) => [name, text]),
  ...slowUnits.map((unit) => [unit, unit.repeat(Math.ceil(190_000 / unit.length))]),
]);

/** Makes the inputs of a work by name: each returns the work on a share of its whole size. */
const works = {
  ...Object.fromEntries(
    Object.entries(readers).map(([title, read]) => [
      title,
      Object.entries(texts).map(([name, text]) => [
        name,
        (share) => {
          const part = text.slice(0, text.length * share);
          return () => read(part);
        },
      ]),
    ]),
  ),
  "every reader of a log": Object.entries(slowLogs).map(([name, logOf]) => [
    name,
    (share) => {
      const log = logOf(16_000 * share);
      return () => readLog(log);
    },
  ]),
  "a request": Object.entries(slowHistories).map(([name, historyOf]) => [
    name,
    (share) => {
      const context = contextOf(historyOf(80_000 * share));
      return () => sessionTree.buildRequest(context, { format: sessionTree.anthropicFormat });
    },
  ]),
};

export const tasks = {
  titles: () => ({ titles: Object.keys(works) }),

  /**
   * Returns the largest growth of a work over its inputs: time at the whole size, divided by time at an eighth. Times
   * below `FLOOR` count as `FLOOR`, because they are mostly noise.
   */
  growth({ title, isSmoke }) {
    const inputs = isSmoke ? works[title].slice(0, 2) : works[title];
    const grown = inputs.map(([name, at]) => {
      const [small, large] = [at(1 / 8), at(1)];
      let growth = Number.POSITIVE_INFINITY;
      let ms = 0;
      // A high growth is measured again: a collection of garbage may have fallen into the larger work alone.
      for (let round = 0; round < ROUNDS && growth > EXPECTED; round++) {
        const few = Math.max(FLOOR, fastest(small));
        ms = Math.max(FLOOR, fastest(large));
        growth = Math.min(growth, ms / few);
      }
      return { name, ms, growth };
    });
    const [worst] = grown.sort((a, b) => b.growth - a.growth);
    return { ...worst, inputs: inputs.length };
  },
};

/** Milliseconds. */
const FLOOR = 5;

/** Growth of work that is proportional to its size. */
const EXPECTED = 8;
const ROUNDS = 4;

/** Returns the milliseconds of processor time of the fastest of at most three runs; of the first one, if it is long. */
function fastest(work) {
  const times = [];
  do {
    const start = process.cpuUsage();
    work();
    const { user, system } = process.cpuUsage(start);
    times.push((user + system) / 1_000);
  } while (times.length < 3 && times[0] < 100);
  return Math.min(...times);
}
