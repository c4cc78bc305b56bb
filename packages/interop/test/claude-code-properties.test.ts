import { referenceIssues } from "@espalier/session-tree";
import fc from "fast-check";
import { expect, test } from "vitest";
import {
  answer,
  aside,
  attachment,
  boundary,
  call,
  type Line,
  result,
  SESSION,
  summary,
  thinking,
  user,
} from "./claude-code-lines.ts";
import { rebuildConversation } from "./claude-code-rebuild.ts";
import { imported, inTwoGoes, joined, said, writeSession } from "./import-scratch.ts";
import { requestProblems } from "./request-problems.ts";

/** What happens in a session, and by which number it is chosen where there is a choice. */
const happening = fc.record({
  what: fc.constantFrom("prompt", "answer", "tool", "attachment", "meta", "state", "branch", "compact"),
  choice: fc.nat(1_000),
});

/** A file in which all of this happened, one after the other. */
function transcript(happenings: readonly { what: string; choice: number }[]): Line[] {
  const lines: Line[] = [user("u0", null)];
  /** The lines on the path to where the session stands; parts of one answer stand together. */
  let path: string[][] = [["u0"]];
  /** Paths that were left, to go back to. */
  const left: string[][][] = [];
  let last = "u0";
  for (const [at, { what, choice }] of happenings.entries()) {
    const id = `${what}${at}`;
    const go = (ids: string[], ...added: Line[]) => {
      lines.push(...added);
      path.push(ids);
      last = ids.at(-1)!;
    };
    if (what === "prompt") go([id], user(id, last));
    else if (what === "attachment")
      go([id], attachment(id, last, "note", choice % 2 === 0 ? `seen ${id}` : undefined));
    else if (what === "meta") {
      // What was not typed never ends a session: the rule for the leaf passes it over.
      go([id], user(id, last, "not typed", { isMeta: true }));
      go([`${id}.u`], user(`${id}.u`, id));
    } else if (what === "state") lines.push(aside("mode", { mode: id }));
    else if (what === "answer") {
      const parts = Array.from({ length: (choice % 3) + 1 }, (_, part) => `${id}.${part}`);
      const blocks = parts.map((part, nth) => (nth === 0 && parts.length > 1 ? thinking(part) : part));
      go(
        parts,
        ...parts.map((part, nth) => answer(part, nth === 0 ? last : parts[nth - 1]!, blocks[nth], { id })),
      );
    } else if (what === "tool") {
      go([`${id}.c`], answer(`${id}.c`, last, call(id), { stop: "tool_use" }));
      go([`${id}.r`], result(`${id}.r`, `${id}.c`, id));
    } else if (what === "branch" && path.length > 1) {
      left.push(path);
      const cut = path.slice(0, 1 + (choice % (path.length - 1)));
      path = cut;
      last = cut.at(-1)!.at(-1)!;
      go([id], user(id, last));
    } else if (what === "compact") {
      const kept = path
        .slice(path.length - (choice % Math.min(4, path.length)))
        .filter((_, nth) => (choice >> nth) % 3 !== 0);
      const between = choice % 2 === 0 ? [attachment(`${id}.x`, `${id}.b`, "date", "today")] : [];
      lines.push(
        boundary(`${id}.b`, last, kept.flat(), id),
        ...between,
        summary(id, between.length > 0 ? `${id}.x` : `${id}.b`),
      );
      path = [...kept];
      go([`${id}.u`], user(`${id}.u`, id));
    }
  }
  return lines;
}

test("the context of any session follows the format, and makes a valid request", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(happening, { maxLength: 14 }), async (happenings) => {
      const lines = transcript(happenings);
      const { session, report } = await imported(writeSession(lines));
      expect(said(session.context.messages)).toEqual(rebuildConversation(lines));
      expect(requestProblems(session.context)).toEqual([]);
      expect([...report.issues, ...session.tree.issues, ...referenceIssues(session.tree)]).toEqual([]);
    }),
    { numRuns: 150 },
  );
});

test("importing a part first and the rest later gives the same result", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(happening, { maxLength: 14 }), fc.nat(1_000), async (happenings, cut) => {
      const lines = transcript(happenings);
      const whole = await imported(writeSession(lines));
      const grown = await inTwoGoes(`${SESSION}.jsonl`, lines, 1 + (cut % lines.length));
      expect(joined(said(grown.session.context.messages))).toEqual(
        joined(said(whole.session.context.messages)),
      );
      expect([...grown.session.tree.issues, ...referenceIssues(grown.session.tree)]).toEqual([]);
    }),
    { numRuns: 100 },
  );
});
