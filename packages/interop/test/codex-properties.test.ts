import { referenceIssues } from "@espalier/session-tree";
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  call,
  injected,
  type Line,
  message,
  output,
  prompt,
  Rollout,
  reasoning,
  rolloutName,
} from "./codex-lines.ts";
import { rebuildThread } from "./codex-rebuild.ts";
import { imported, inTwoGoes, joined, said, writeRollout } from "./import-scratch.ts";
import { requestProblems } from "./request-problems.ts";

/** What happens in a thread, and by which number it is chosen where there is a choice. */
const happening = fc.record({
  what: fc.constantFrom("turn", "tools", "injected", "settings", "rollback", "compact"),
  choice: fc.nat(1_000),
});

/** A rollout of either generation in which all of this happened, one after the other. */
function rollout(isOld: boolean, happenings: readonly { what: string; choice: number }[]): Line[] {
  const thread = new Rollout(isOld ? {} : { ordinal: 0 }).meta().turn();
  const ask = (text: string) => (isOld ? message("user", text) : prompt(text));
  let asked: string[] = [];
  /** Prompts since the last compaction: what a roll-back beyond one means, the format does not say. */
  let recent = 0;
  let total = 0;
  const billed = () => {
    total += 112;
    if (isOld) thread.count(total);
    else thread.record();
  };
  for (const [at, { what, choice }] of happenings.entries()) {
    const text = `${what}${at}`;
    if (what === "turn" || what === "tools") {
      asked.push(text);
      recent++;
      thread.event("task_started").items(ask(text));
      if (isOld) thread.event("user_message", { message: text });
      if (what === "tools") {
        const calls = Array.from({ length: (choice % 3) + 1 }, (_, nth) => `${text}.${nth}`);
        thread.items(reasoning(`think ${text}`), ...calls.map((id) => call(id)));
        if (choice % 2 === 0) billed();
        thread.items(...calls.map((id) => output(id)));
      }
      if (choice % 5 > 0) thread.items(message("assistant", `answer ${text}`));
      if (choice % 5 > 1) billed();
    } else if (what === "injected")
      thread.items(isOld ? message("user", `<environment_context>${text}`) : injected(text));
    else if (what === "settings") thread.turn(`model-${choice % 3}`);
    else if (what === "rollback" && recent > 0) {
      const turns = 1 + (choice % recent);
      recent -= turns;
      asked = asked.slice(0, asked.length - turns);
      thread.event("thread_rolled_back", { num_turns: turns });
    } else if (what === "compact") {
      const kept = asked.filter((_, nth) => (choice >> nth) % 2 === 0);
      asked = choice % 4 === 0 ? asked : kept;
      recent = 0;
      const history = [...kept.map(ask), ...(isOld ? [message("user", `Summary ${text}`)] : [])];
      const listed = choice % 4 === 0 ? {} : { replacement_history: history };
      thread.add("compacted", { message: `Summary ${text}`, ...listed });
    }
  }
  return thread.lines;
}

test("the context of any thread follows the format, and makes a valid request", async () => {
  await fc.assert(
    fc.asyncProperty(fc.boolean(), fc.array(happening, { maxLength: 14 }), async (isOld, happenings) => {
      const lines = rollout(isOld, [{ what: "turn", choice: 4 }, ...happenings]);
      const { session } = await imported(writeRollout(lines));
      expect(said(session.context.messages)).toEqual(rebuildThread(lines));
      expect([...session.tree.issues, ...referenceIssues(session.tree)]).toEqual([]);
      if (said(session.context.messages).length > 0) expect(requestProblems(session.context)).toEqual([]);
    }),
    { numRuns: 150 },
  );
});

test("importing a part first and the rest later gives the same result", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.boolean(),
      fc.array(happening, { maxLength: 14 }),
      fc.nat(1_000),
      async (isOld, happenings, cut) => {
        const lines = rollout(isOld, [{ what: "turn", choice: 4 }, ...happenings]);
        const whole = await imported(writeRollout(lines));
        const grown = await inTwoGoes(rolloutName(), lines, 1 + (cut % lines.length));
        expect(joined(said(grown.session.context.messages))).toEqual(
          joined(said(whole.session.context.messages)),
        );
        expect([...grown.session.tree.issues, ...referenceIssues(grown.session.tree)]).toEqual([]);
      },
    ),
    { numRuns: 100 },
  );
});
