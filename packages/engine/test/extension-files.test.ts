import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createSession, openSession, openTrust } from "@espalier/engine";
import type { ExtensionReport } from "@espalier/extensions";
import type { CompactionEntry } from "@espalier/session-tree";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { TURN_TOKENS, turn } from "./build-session.ts";

let root = "";
let home = "";
let project = "";
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "espalier-"));
  home = join(root, "home");
  project = join(root, "project");
  mkdirSync(join(project, ".espalier", "extensions"), { recursive: true });
});
afterEach(() => rmSync(root, { recursive: true }));

/** An extension file that leaves a mark when its code runs. */
const marking = (mark: string) => `
  import { appendFileSync } from "node:fs";
  appendFileSync(${JSON.stringify(mark)}, "ran\\n");
  export default function () {}
`;

describe("extensions of a project", () => {
  test("do not run before the user trusts the folder, and run afterwards", async () => {
    const mark = join(root, "mark");
    writeFileSync(join(project, ".espalier", "extensions", "own.ts"), marking(mark));
    const reports: ExtensionReport[] = [];
    const options = {
      home,
      discoverExtensions: true,
      onReport: (report: ExtensionReport) => reports.push(report),
    };
    const session = await createSession({ ...options, cwd: project });
    await session.close();
    await (await openSession({ file: session.file }, options)).close();
    await (await openSession({ file: session.file }, { ...options, mode: "read" })).close();
    expect(existsSync(mark)).toBe(false);

    await openTrust(home).trust(project);
    await (await openSession({ file: session.file }, options)).close();
    expect(readFileSync(mark, "utf8")).toBe("ran\n");
    // Who does not look for extensions has none, trusted or not.
    await (await openSession({ file: session.file }, { home })).close();
    expect(readFileSync(mark, "utf8")).toBe("ran\n");

    openTrust(home).revoke(project);
    await (await openSession({ file: session.file }, options)).close();
    expect(readFileSync(mark, "utf8")).toBe("ran\n");
    expect(reports).toEqual([]);
  });

  test("are trusted by the real path of the folder, not by a link to it", async () => {
    const mark = join(root, "mark");
    writeFileSync(join(project, ".espalier", "extensions", "own.ts"), marking(mark));
    const link = join(root, "link");
    symlinkSync(project, link);
    await openTrust(home).trust(link);
    expect(openTrust(home).list()).toEqual([project]);
    expect(openTrust(home).isTrusted(project)).toBe(true);
    // Another folder under the same name is not trusted.
    const other = join(root, "other");
    mkdirSync(join(other, ".espalier", "extensions"), { recursive: true });
    writeFileSync(join(other, ".espalier", "extensions", "own.ts"), marking(mark));
    rmSync(link);
    symlinkSync(other, link);
    const session = await createSession({ home, discoverExtensions: true, cwd: link });
    await session.close();
    expect(existsSync(mark)).toBe(false);
  });

  test("that changed do not run; this is reported once, and the user is asked if that is possible", async () => {
    const mark = join(root, "mark");
    const file = join(project, ".espalier", "extensions", "own.ts");
    writeFileSync(file, marking(mark));
    await openTrust(home).trust(project);
    writeFileSync(file, marking(mark).replace("ran", "changed"));
    const reports: ExtensionReport[] = [];
    const options = {
      home,
      discoverExtensions: true,
      onReport: (report: ExtensionReport) => reports.push(report),
    };
    const session = await createSession({ ...options, cwd: project });
    await session.close();
    expect(existsSync(mark)).toBe(false);
    expect(reports).toMatchObject([{ kind: "refused-load", owners: [file] }]);
    expect(reports[0]!.message).toContain(".espalier/extensions/own.ts");
    await (await openSession({ file: session.file }, { ...options, confirmTrust: () => true })).close();
    await (await openSession({ file: session.file }, options)).close();
    expect(readFileSync(mark, "utf8")).toBe("changed\nchanged\n");
    expect(reports).toHaveLength(1);
  });

  test("that cannot be loaded are reported and left out; a named extension gives an error", async () => {
    const broken = join(project, ".espalier", "extensions", "broken.ts");
    writeFileSync(broken, "export default 7");
    await openTrust(home).trust(project);
    const reports: ExtensionReport[] = [];
    const onReport = (report: ExtensionReport) => reports.push(report);
    const session = await createSession({ home, discoverExtensions: true, cwd: project, onReport });
    await session.close();
    expect(reports).toMatchObject([{ kind: "refused-load", owners: [broken] }]);
    await expect(openSession({ file: session.file }, { home, extensions: [broken] })).rejects.toMatchObject({
      code: "no-default-export",
    });
    await expect(
      openSession({ file: session.file }, { home, extensions: [join(root, "nowhere.ts")] }),
    ).rejects.toMatchObject({
      code: "not-found",
    });
    await (await openSession({ file: session.file }, { home })).close();
  });

  test("whose setup fails leave no command and no listener, and others can register the same name", async () => {
    const said: string[] = [];
    const put = (name: string, body: string) =>
      writeFileSync(
        join(project, ".espalier", "extensions", name),
        `export default async (api) => { ${body} };`,
      );
    const registers = (word: string) =>
      `api.events.on("bus", () => api.setSessionName("${word}"));
       api.registerCommand("go", { handler: (_, { ui }) => { ui.notify("${word}"); api.events.emit("bus"); } });`;
    put("a.ts", `${registers("broken")} throw new Error("half");`);
    put("b.ts", registers("sound"));
    await openTrust(home).trust(project);
    const ui = { notify: (message: string) => void said.push(message) };
    const session = await createSession({ home, discoverExtensions: true, cwd: project, ui });
    await session.runCommand("go");
    expect([session.name, said, session.commands.length]).toEqual(["sound", ["sound"], 1]);
    await session.close();
  });
});

test("extensions of the user's own folder need no trust, and run before those of the project", async () => {
  const mark = join(root, "mark");
  mkdirSync(join(home, "extensions"), { recursive: true });
  const naming = (name: string) => marking(mark).replace("ran", name);
  writeFileSync(join(home, "extensions", "mine.ts"), naming("mine"));
  writeFileSync(join(project, ".espalier", "extensions", "own.ts"), naming("project"));
  await openTrust(home).trust(project);
  await (await createSession({ home, discoverExtensions: true, cwd: project })).close();
  expect(readFileSync(mark, "utf8")).toBe("mine\nproject\n");
});

test("an extension that is found, named, and named again by a link runs once", async () => {
  const mark = join(root, "mark");
  const file = join(home, "extensions", "mine.ts");
  const link = join(root, "link.ts");
  mkdirSync(join(home, "extensions"), { recursive: true });
  writeFileSync(file, marking(mark));
  symlinkSync(file, link);
  const extensions = [file, link];
  await (await createSession({ home, discoverExtensions: true, cwd: project, extensions })).close();
  await (await createSession({ home, cwd: project, extensions })).close();
  expect(readFileSync(mark, "utf8")).toBe("ran\nran\n");
});

describe("a trust file", () => {
  test("is readable only by its owner, under any umask", async () => {
    const before = process.umask(0);
    try {
      await openTrust(home).trust(project);
      expect(statSync(home).mode & 0o777).toBe(0o700);
      for (const name of readdirSync(join(home, "trusted")))
        expect(statSync(join(home, "trusted", name)).mode & 0o777).toBe(0o600);
      const file = join(root, "extension.ts");
      writeFileSync(file, "export default function () {}");
      await (await createSession({ home, cwd: project, extensions: [file] })).close();
      expect(statSync(join(home, "cache")).mode & 0o777).toBe(0o700);
      const cache = join(home, "cache", "extensions");
      expect(statSync(cache).mode & 0o777).toBe(0o700);
      expect(readdirSync(cache).length).toBeGreaterThan(0);
      for (const name of readdirSync(cache)) expect(statSync(join(cache, name)).mode & 0o777).toBe(0o600);
    } finally {
      process.umask(before);
    }
  });

  test("leaves no other file, and trusting twice has no further effect", async () => {
    const trust = openTrust(home);
    await trust.trust(project);
    await trust.trust(project);
    await trust.trust(root);
    expect(trust.list()).toEqual([root, project]);
    trust.revoke(project);
    trust.revoke(project);
    expect(openTrust(home).list()).toEqual([root]);
    expect(readdirSync(home)).toEqual(["trusted"]);
    expect(readdirSync(join(home, "trusted"))).toHaveLength(1);
  });

  test("is refused with a code if the home cannot be written", async () => {
    const file = join(root, "file");
    writeFileSync(file, "");
    // Names that the system refuses, also to its superuser.
    for (const place of [file, join(file, "below"), "/proc/nowhere"]) {
      await expect(openTrust(place).trust(project), place).rejects.toMatchObject({ code: "write-failed" });
      expect(openTrust(place).isTrusted(project)).toBe(false);
      openTrust(place).revoke(project);
    }
  });

  test("that is unreadable trusts nothing, and is reported", async () => {
    await openTrust(home).trust(project);
    for (const text of ["{", '{"a": 1}', "[1]"]) {
      for (const name of readdirSync(join(home, "trusted"))) writeFileSync(join(home, "trusted", name), text);
      expect(() => openTrust(home).isTrusted(project)).toThrow(
        expect.objectContaining({ code: "bad-input" }),
      );
    }
    expect(openTrust(home).isTrusted(join(root, "nowhere"))).toBe(false);
    const file = join(root, "file");
    writeFileSync(file, "");
    for (const place of [join(root, "nowhere"), file])
      await expect(openTrust(home).trust(place)).rejects.toMatchObject({ code: "bad-input" });
  });
});

describe("the pattern of the Pi agent", () => {
  /** As one would write it for Pi: untyped, with its default export, its `ctx` and its names. */
  const PI_EXTENSION = `
    import { writeFileSync } from "node:fs";

    export default (pi: any) => {
      pi.on("session_before_compact", async (event: any, ctx: any) => {
        const { preparation, branchEntries, customInstructions, signal } = event;
        const { messagesToSummarize, turnPrefixMessages, tokensBefore, firstKeptEntryId, previousSummary } = preparation;
        const all = [...messagesToSummarize, ...turnPrefixMessages];
        const files = [...preparation.fileOps.read, ...preparation.fileOps.edited, ...preparation.fileOps.written];
        ctx.ui.notify("Summarizing " + all.length + " messages", "info");
        if (signal.aborted) return;
        const branch = ctx.sessionManager.getBranch();
        return {
          compaction: {
            summary: [
              previousSummary ? "## Before\\n" + previousSummary : "## Start",
              "branch " + branch.length + " of " + branchEntries.length + " in " + ctx.cwd,
              "leaf " + ctx.sessionManager.getLeafId(),
              "files " + files.sort().join(","),
              "attend to " + customInstructions,
            ].join("\\n"),
            firstKeptEntryId,
            tokensBefore,
            details: { artifacts: files.length },
          },
        };
      });
      pi.on("session_compact", async (event: any, ctx: any) => {
        const entry = ctx.sessionManager.getEntry(event.compactionEntry.id);
        writeFileSync(MARK, JSON.stringify({ same: entry === event.compactionEntry, fromExtension: event.fromExtension }));
      });
    };
  `;

  test("runs unmodified from a TypeScript file", async () => {
    const mark = join(root, "mark.json");
    const file = join(root, "custom-compaction.ts");
    writeFileSync(file, PI_EXTENSION.replace("MARK", JSON.stringify(mark)));
    const said: string[] = [];
    const session = await createSession({
      home,
      cwd: project,
      extensions: [file],
      compaction: { keepRecentTokens: TURN_TOKENS },
      ui: { notify: (message) => said.push(message) },
    });
    for (const name of ["1", "2", "3"]) await session.appendMessages(turn(name, { calls: 2 }));
    const leafId = session.leafId;
    const result = await session.compact({ instructions: "the ids" });
    if (!result.eligible) throw new Error(result.reason);
    expect(result).toMatchObject({ source: "extension", tokensBefore: expect.any(Number) });
    expect(result.summary).toBe(
      `## Start\nbranch 18 of 18 in ${project}\nleaf ${leafId}\nfiles 1-1.ts,1-2.ts,2-1.ts,2-2.ts,3-1.ts\nattend to the ids`,
    );
    const entry = session.getEntry(result.entryId) as CompactionEntry;
    expect(entry).toMatchObject({ fromHook: true, details: { artifacts: 5, source: "extension" } });
    expect(JSON.parse(readFileSync(mark, "utf8"))).toEqual({ same: true, fromExtension: true });
    expect(said).toEqual(["Summarizing 15 messages"]);
    for (const name of ["4", "5"]) await session.appendMessages(turn(name));
    expect(await session.compact()).toMatchObject({
      summary: expect.stringMatching(/^## Before\n## Start\n/),
    });
    await session.close();
  });

  test("that uses members that only Pi has stops with one sentence that names them", async () => {
    const file = join(root, "pi.ts");
    writeFileSync(
      file,
      'import { compact } from "@earendil-works/pi-coding-agent";\nexport default () => { compact(); };\n',
    );
    await expect(createSession({ home, cwd: project, extensions: [file] })).rejects.toMatchObject({
      code: "setup-failed",
      owner: file,
      message: expect.stringContaining("compact of pi-coding-agent is not available here"),
    });
  });
});

test("an extension for Espalier gets the program's own modules", async () => {
  const file = join(root, "ours.ts");
  writeFileSync(
    file,
    `
    import { defineExtension } from "@espalier/engine";
    import { compact } from "@espalier/compaction";
    import { extractiveSummarizer } from "@espalier/summarizer";
    import { compaction } from "@espalier/session-tree";

    export default defineExtension((api) => {
      api.on("session_before_compact", async ({ preparation, branchEntries, compactionId }) => {
        const plan = { ...preparation, blocks: { pinned: [], files: { readFiles: [], modifiedFiles: [] } } };
        const { prose } = await compact(plan as never, { summarizer: extractiveSummarizer() });
        const earlier = branchEntries.filter((entry) => compaction.is(entry)).length;
        return { compaction: { summary: earlier + " before " + compactionId.length + "\\n" + prose } };
      });
    });
    `,
  );
  const session = await createSession({
    home,
    cwd: project,
    extensions: [file],
    compaction: { keepRecentTokens: TURN_TOKENS },
  });
  for (let at = 0; at < 12; at++) await session.appendMessages(turn(`${at}`));
  expect(await session.compact()).toMatchObject({ summary: expect.stringMatching(/^0 before 12\n## Goal/) });
  await session.close();
});

test("an extension that imports a moved name gets an error with the new door", async () => {
  const file = join(root, "moved.ts");
  writeFileSync(
    file,
    'import { buildRequest } from "@espalier/engine";\nexport default () => { buildRequest([]); };\n',
  );
  await expect(createSession({ home, cwd: project, extensions: [file] })).rejects.toMatchObject({
    code: "setup-failed",
    message: expect.stringContaining(
      'buildRequest moved: import it from "espalier/extend" instead of "@espalier/engine".',
    ),
  });
});

test("the error classes of earlier versions are today's class", async () => {
  const file = join(root, "errors.ts");
  writeFileSync(
    file,
    `
    import { EngineError } from "@espalier/engine";
    import { SessionTreeError } from "@espalier/session-tree";

    export default (api) => {
      api.on("entry_before_append", () => {
        throw new SessionTreeError("invalid-entry", EngineError === SessionTreeError ? "one class" : "two");
      }, { critical: true });
    };
    `,
  );
  const session = await createSession({ home, cwd: project, extensions: [file] });
  await expect(session.appendMessages(turn("1"))).rejects.toThrow("one class");
  await session.close();
});

test("an extension that imports the policies under an earlier name gets the program's own", async () => {
  const file = join(root, "policies.ts");
  writeFileSync(
    file,
    `
    import { messageCount } from "espalier";
    import { sessionSummaries } from "espalier/policies";
    import { messageCount as earlier } from "@espalier/policies";

    export default (api) => {
      if (earlier !== messageCount || earlier().name !== "message-count") throw new Error("another module");
      api.on("session_compact", ({ compactionEntry }) => {
        if (typeof sessionSummaries !== "function") throw new Error(compactionEntry.id);
      });
    };
    `,
  );
  const session = await createSession({ home, cwd: project, extensions: [file] });
  await session.close();
});
