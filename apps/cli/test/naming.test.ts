import { copyFileSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { DEMO, espalier, espalierJson, HEADER, said, sessionOf, temporaryFolder } from "./espalier.ts";

const idOf = async (file: string, reference: string) => {
  const { value } = await espalierJson(["show", file, reference]);
  return value.error ? value.error : value.id;
};

test("an entry is named by its id, the beginning of its id, its label, or a word", async () => {
  const references = ["vPdDiWYGH0ya", "vPdD", "before-cache", "@before-cache"];
  expect(await Promise.all(references.map((reference) => idOf(DEMO, reference)))).toEqual(
    references.map(() => "vPdDiWYGH0ya"),
  );
  expect(await idOf(DEMO, "leaf")).toBe("2ur7kch3b1oZ");
});

test("ids have priority over words, words over labels, labels over beginnings of ids", async () => {
  const file = sessionOf(
    HEADER,
    said("leafless", null, "one"),
    said("start-here", "leafless", "two"),
    said("taken", "start-here", "three"),
    { type: "label", id: "l1", parentId: "taken", timestamp: "", targetId: "leafless", label: "taken" },
    { type: "label", id: "l2", parentId: "taken", timestamp: "", targetId: "start-here", label: "leaf" },
  );
  expect(await idOf(file, "taken")).toBe("taken");
  expect(await idOf(file, "@taken")).toBe("leafless");
  expect(await idOf(file, "leaf")).toBe("taken");
  expect(await idOf(file, "@leaf")).toBe("start-here");
  expect(await idOf(file, "leafl")).toBe("leafless");
  expect(await idOf(file, "start")).toMatchObject({ code: "usage" });
});

test("an ambiguous name is refused with a list of the matches", async () => {
  const file = sessionOf(
    HEADER,
    said("abcd1", null, "one"),
    said("abcd2", "abcd1", "two"),
    { type: "label", id: "l1", parentId: "abcd2", timestamp: "", targetId: "abcd1", label: "same" },
    { type: "label", id: "l2", parentId: "abcd2", timestamp: "", targetId: "abcd2", label: "same" },
  );
  expect(await idOf(file, "abcd")).toEqual({
    code: "ambiguous",
    message: '2 entries have an id that begins with "abcd": abcd1, abcd2; name one of them.',
  });
  expect(await idOf(file, "same")).toMatchObject({ code: "ambiguous" });
});

test("an unknown id is answered with similar ids", async () => {
  expect(await idOf(DEMO, "vPdDiWYGH0yb")).toEqual({
    code: "unknown-entry",
    message: 'There is no entry "vPdDiWYGH0yb" in this session. Similar ids: vPdDiWYGH0ya.',
  });
});

test("an unknown id without a similar one is answered with the command that lists all ids", async () => {
  const file = sessionOf(HEADER, said("e1", null, "one"));
  expect(await idOf(file, "zzzzzzzz")).toEqual({
    code: "unknown-entry",
    message: `There is no entry "zzzzzzzz" in this session. \`espalier tree ${file}\` lists all ids.`,
  });
});

test("a mistyped label or session is refused with a suggestion", async () => {
  expect((await idOf(DEMO, "before-cahe")).message).toMatch(/Did you mean the label "before-cache"\?$/);
  expect((await idOf(DEMO, "zebra")).message).not.toContain("Did you mean");
  const env = { ESPALIER_HOME: temporaryFolder() };
  mkdirSync(join(env.ESPALIER_HOME, "sessions"));
  copyFileSync(DEMO, join(env.ESPALIER_HOME, "sessions", "s.jsonl"));
  const { value } = await espalierJson(["show", "LTfrBGnUynOO", "leaf"], { env });
  expect(value.error).toMatchObject({
    code: "not-found",
    message: expect.stringMatching(/Did you mean LTfrBGnUynOG\?$/),
  });
});

test("a session is named by its title too, if no id begins with it and no other session has this title", async () => {
  const env = { ESPALIER_HOME: temporaryFolder() };
  const folder = join(env.ESPALIER_HOME, "sessions");
  mkdirSync(folder);
  const write = (id: string, ...entries: object[]) => {
    const lines = [{ ...HEADER, id }, ...entries].map((line) => `${JSON.stringify(line)}\n`);
    writeFileSync(join(folder, `${id}.jsonl`), lines.join(""));
  };
  const name = { type: "session_info", id: "n1", parentId: "u1", timestamp: "", name: "Low water" };
  write("harbour-1", said("u1", null, "When is low water?"), name);
  write("Springtide-2", said("u1", null, "Which way is north?"));
  write("lamp-3", said("u1", null, "Springtide"));
  const idOfSession = async (word: string) => {
    const { value } = await espalierJson(["tree", word], { env });
    return value.error ?? value.session.id;
  };
  expect(await idOfSession("Low water")).toBe("harbour-1");
  expect(await idOfSession("low water")).toBe("harbour-1");
  expect(await idOfSession("Which way is north?")).toBe("Springtide-2");
  expect(await idOfSession("Springtide")).toBe("Springtide-2");
  const written = await espalier(
    ["continue", "Low water", "--in", "pi", "--cwd", folder, "--out", join(folder, "p")],
    {
      env,
    },
  );
  expect(written.code).toBe(0);
  write("lamp-4", said("u1", null, "When is low water?"), name);
  expect(await idOfSession("Low water")).toEqual({
    code: "not-found",
    message: expect.stringMatching(
      /^2 sessions have the title "Low water": (harbour-1, lamp-4|lamp-4, harbour-1); name one of them by its id\.$/,
    ),
  });
});

test("sessions that share one id are named by their files, unless one of them is in the home folder", async () => {
  const home = temporaryFolder();
  const env = { ESPALIER_HOME: home, PI_CODING_AGENT_DIR: join(home, "pi") };
  const line = `${JSON.stringify({ ...HEADER, id: "shared-1" })}\n`;
  const files = ["pi/sessions/a", "pi/sessions/b", "sessions"].map((folder) => {
    mkdirSync(join(home, folder), { recursive: true });
    return join(home, folder, "shared.jsonl");
  });
  const [first, second, own] = files as [string, string, string];
  for (const file of [first, second]) writeFileSync(file, line);
  const opened = async () => (await espalierJson(["tree", "shar"], { env })).value;
  const { error } = await opened();
  expect(error).toMatchObject({
    code: "not-found",
    message: expect.stringMatching(/; name one by its file\.$/),
  });
  for (const file of [first, second]) expect(error.message).toContain(file);
  writeFileSync(own, line);
  expect(await opened()).toMatchObject({ session: { file: own } });
});
