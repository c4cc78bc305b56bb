import type { ContextMessage } from "@espalier/session-tree";
import {
  collectFileOps,
  type FileTool,
  fileLists,
  fileTools,
  formatFileLists,
  newFileOps,
  parseFileLists,
  patchedFiles,
} from "@espalier/summarizer";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { assistant, result, user } from "./build-messages.ts";

/** One call of a tool, as a message. */
const call = (name: string, args: Record<string, unknown>, id = "1") =>
  assistant("", [{ id, name, arguments: args }]);

const listsOf = (messages: ContextMessage[], tools?: readonly FileTool[]) =>
  fileLists(collectFileOps(messages, tools));

describe("collectFileOps", () => {
  it.each([
    ["read", { path: "a" }, "read"],
    ["Read", { file_path: "a" }, "read"],
    ["mcp__disk__read_file", { path: "a" }, "read"],
    ["read_many_files", { paths: ["a"] }, "read"],
    ["str_replace_based_edit_tool", { command: "view", path: "a" }, "read"],
    ["write", { path: "a", content: "" }, "modified"],
    ["Edit", { file_path: "a" }, "modified"],
    ["MULTIEDIT", { file_path: "a" }, "modified"],
    ["NotebookEdit", { notebook_path: "a" }, "modified"],
    ["str_replace_editor", { command: "str_replace", path: "a" }, "modified"],
    ["apply_patch", { input: "*** Begin Patch\n*** Update File: a\n@@\n*** End Patch" }, "modified"],
    [
      "shell",
      { command: ["apply_patch", "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"] },
      "modified",
    ],
    ["rename_file", { from: "a" }, "modified"],
  ])("knows the effect of %s %j", (name, args, kind) => {
    const lists = listsOf([call(name, args)]);
    expect(lists).toEqual({
      readFiles: kind === "read" ? ["a"] : [],
      modifiedFiles: kind === "modified" ? ["a"] : [],
    });
  });

  it.each([
    ['const r = await tools.exec_command({"cmd":"cat a.ts"}); text(r.output)', []],
    [
      'await tools.apply_patch("*** Begin Patch\\n*** Update File: src/a.ts\\n@@\\n-x\\n+y\\n*** End Patch")',
      ["src/a.ts"],
    ],
    [
      "const patch = '*** Begin Patch\\n*** Add File: src/b.ts\\n+x\\n' +\n  '*** Delete File: c.ts\\n*** End Patch';\nawait tools.apply_patch(patch);",
      ["c.ts", "src/b.ts"],
    ],
    [
      "await tools.apply_patch(String.raw`*** Begin Patch\n*** Update File: d.ts\n+\\d\n*** End Patch`)",
      ["d.ts"],
    ],
    ["await tools['write_file']({ path: \"e\\u002ets\", content: `x`, mode: other() })", ["e.ts"]],
    [
      "await Promise.all([tools.edit({ path: 'f.ts' }), tools.exec_command({ cmd: \"apply_patch <<'EOF'\\n*** Begin Patch\\n*** Update File: g.ts\\n*** End Patch\\nEOF\", workdir }) ])",
      ["f.ts", "g.ts"],
    ],
    ["await tools.write_file({ mode: modeOf(old), content: [first(), `x`], path: 'h.ts' })", ["h.ts"]],
    ["await tools.apply_patch(", []],
    ["const tools = `unclosed", []],
  ])("reads a program that calls tools as what it does: %s", (input, modifiedFiles) => {
    expect(listsOf([call("exec", { input })]).modifiedFiles).toEqual(modifiedFiles);
  });

  it("does not run programs in the arguments of other tools, and reads hostile ones in linear time", () => {
    const input = "await tools.write_file({path: 'a'})";
    expect(listsOf([call("note", { input })]).modifiedFiles).toEqual([]);
    const never = ["tools.a({a:".repeat(20_000), `tools.a(${"[".repeat(100_000)}`];
    never.push(...["const a=[x ", "const a=// "].map((start) => `${start.repeat(20_000)} tools.a(`));
    for (const hostile of never)
      expect(listsOf([call("exec", { input: hostile })]).modifiedFiles).toEqual([]);
    const pieces = "'*** Add File: a\\n' + ".repeat(20_000);
    expect(listsOf([call("exec", { input: `tools.apply_patch(${pieces}'')` })]).modifiedFiles).toEqual(["a"]);
  });

  it("uses a tool's own declaration first, and knows nothing of other tools", () => {
    const mine: FileTool = { name: "read", files: ({ what }) => ({ edited: [String(what)] }) };
    const calls = [call("READ", { what: "z", path: "a" }), call("deploy", { path: "b" })];
    expect(listsOf(calls, [...fileTools, mine])).toEqual({ readFiles: [], modifiedFiles: ["z"] });
  });

  it("does not count a call that failed or never ran", () => {
    const messages = [
      call("write", { path: "failed" }, "1"),
      result("1", "permission denied", { isError: true }),
      assistant("", [{ id: "2", name: "write", arguments: { path: "aborted" } }], { stopReason: "aborted" }),
      call("write", { path: "open" }, "3"),
    ];
    expect(listsOf(messages).modifiedFiles).toEqual(["open"]);
  });

  it("includes the lists of earlier summaries, and a file that is modified later is no longer only read", () => {
    const earlier = formatFileLists({ readFiles: ["a", "b"], modifiedFiles: ["c"] });
    const messages: ContextMessage[] = [
      { role: "compactionSummary", summary: `## Goal\nx\n\n${earlier}`, tokensBefore: 1, timestamp: 1 },
      call("edit", { path: "b" }),
      call("read", { path: "c" }),
    ];
    expect(listsOf(messages)).toEqual({ readFiles: ["a"], modifiedFiles: ["b", "c"] });
  });

  it("adds to the files collected before, and accepts arguments of any shape", () => {
    const into = newFileOps();
    into.read.add("before");
    const strange = [null, "text", 5, ["x"], { path: 7 }, { paths: [null, { path: "deep" }] }];
    const calls = strange.map((args) => call("read_many_files", args as Record<string, unknown>));
    expect([...collectFileOps([user("x"), ...calls], fileTools, into).read]).toEqual(["before", "deep"]);
  });
});

describe("patchedFiles", () => {
  it("reads a line of many blanks in linear time", () => {
    const blanks = " ".repeat(50_000);
    const patch = `*** Add File: a.ts${blanks}\r\n*** Move to: b${blanks}c\n--- a/${blanks}d`;
    expect(patchedFiles(patch)).toEqual({ written: ["a.ts", `b${blanks}c`], edited: [] });
  });

  it("reads the headers of both patch formats", () => {
    const patch =
      "*** Add File: new.ts\n*** Update File: old.ts\n*** Move to: moved.ts\n*** Delete File: gone.ts";
    expect(patchedFiles(patch)).toEqual({ written: ["new.ts", "moved.ts"], edited: ["old.ts", "gone.ts"] });
    const diff = "--- a/x.ts\t2026\n+++ b/x.ts\n@@\n--- /dev/null\n+++ b/y.ts\n";
    expect(patchedFiles(diff)).toEqual({ written: ["y.ts"], edited: ["x.ts"] });
  });
});

describe("formatFileLists", () => {
  it("writes one path per line, and no block for an empty list", () => {
    expect(formatFileLists({ readFiles: ["a", "b"], modifiedFiles: ["c"] })).toBe(
      "<read-files>\na\nb\n</read-files>\n\n<modified-files>\nc\n</modified-files>",
    );
    expect(formatFileLists({ readFiles: [], modifiedFiles: [] })).toBe("");
  });

  it("leaves out the middle at a limit, first of read files, with the number", () => {
    const readFiles = Array.from({ length: 100 }, (_, index) => `src/read-${index}.ts`);
    const text = formatFileLists({ readFiles, modifiedFiles: ["src/main.ts"] }, 100);
    expect(text.length).toBeLessThanOrEqual(400);
    expect(text).toContain("src/main.ts");
    expect(text).toContain("src/read-0.ts");
    expect(text).toContain("src/read-99.ts");
    const [, count] = /\[… (\d+) paths left out\]/.exec(text) ?? [];
    expect(parseFileLists(text).readFiles).toHaveLength(100 - Number(count));
  });

  it("can be parsed by parseFileLists, for any paths, and respects its limit", () => {
    const paths = fc.uniqueArray(
      fc.oneof(
        fc.string({ minLength: 1 }),
        fc.constantFrom("</read-files>", "<modified-files>", "a\nb", "&lt;", "c&d", "é/👍"),
      ),
    );
    const clean = (list: string[]) =>
      [...new Set(list.map((path) => path.toWellFormed()))].filter((path) => path.trim() !== "").sort();
    fc.assert(
      fc.property(paths, paths, fc.nat(200), (read, modified, limit) => {
        const lists = { readFiles: clean(read), modifiedFiles: clean(modified) };
        expect(parseFileLists(`## Goal\nx\n\n${formatFileLists(lists)}`)).toEqual(lists);
        const short = formatFileLists(lists, limit);
        expect(short.length).toBeLessThanOrEqual(limit * 4);
        for (const path of parseFileLists(short).readFiles) expect(lists.readFiles).toContain(path);
      }),
      { numRuns: 300 },
    );
  });

  it("uses the last of several blocks, as in a summary that quotes another one", () => {
    const quoted = formatFileLists({ readFiles: ["old"], modifiedFiles: [] });
    expect(
      parseFileLists(`${quoted}\n${formatFileLists({ readFiles: ["new"], modifiedFiles: [] })}`).readFiles,
    ).toEqual(["new"]);
    expect(parseFileLists("<read-files>\nnever closed")).toEqual({ readFiles: [], modifiedFiles: [] });
  });
});
