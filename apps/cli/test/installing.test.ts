import { execFileSync } from "node:child_process";
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { pathToFileURL } from "node:url";
import fc from "fast-check";
import { type ParseError, parse as parseJson } from "jsonc-parser";
import { parse as parseToml } from "smol-toml";
import { beforeAll, beforeEach, expect, test, vi } from "vitest";
import { AGENT_NAMES, type AgentName, agentNamed } from "../src/agents/agents.ts";
import { carryOut, planInstall, planUninstall } from "../src/agents/install.ts";
import { jsonSettings, type OwnValue, tomlSettings } from "../src/agents/settings-text.ts";
import { bundled, espalier, espalierJson, temporaryFolder } from "./espalier.ts";

// Before a test has another home, in which nothing is installed.
beforeAll(bundled);

let home = "";
beforeEach(() => {
  home = newHome();
  return () => vi.unstubAllEnvs();
});

/** An empty home of a user, which the agents and Espalier take for theirs. */
function newHome(): string {
  const folder = temporaryFolder();
  for (const [name, value] of Object.entries(environmentOf(folder))) vi.stubEnv(name, value);
  return folder;
}

const environmentOf = (folder: string) => ({
  HOME: folder,
  ESPALIER_HOME: join(folder, ".espalier"),
  CLAUDE_CONFIG_DIR: undefined,
  CODEX_HOME: undefined,
  PI_CODING_AGENT_DIR: undefined,
});

const FOLDERS: Record<AgentName, string> = { "claude-code": ".claude", codex: ".codex", pi: ".pi/agent" };

function write(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}

/** Every path below a folder, with the bytes of files. */
function everything(folder: string, below = ""): Record<string, string> {
  const found: Record<string, string> = {};
  for (const name of readdirSync(join(folder, below)).sort()) {
    const path = join(below, name);
    const facts = lstatSync(join(folder, path));
    if (facts.isDirectory()) Object.assign(found, { [path]: "folder" }, everything(folder, path));
    else found[path] = `${facts.mode & 0o777} ${readFileSync(join(folder, path)).toString("base64")}`;
  }
  return found;
}

const install = (name: AgentName) => carryOut(planInstall(agentNamed(name)));
const uninstall = (name: AgentName) => carryOut(planUninstall(agentNamed(name)));

/** The ways in which people and programs write a settings file. */
interface Style {
  indent: string;
  eol: string;
  comments: boolean;
  trailing: boolean;
  bom: boolean;
  end: boolean;
}

const style: fc.Arbitrary<Style> = fc.record({
  indent: fc.constantFrom("", " ", "  ", "    ", "\t"),
  eol: fc.constantFrom("\n", "\r\n"),
  comments: fc.boolean(),
  trailing: fc.boolean(),
  bom: fc.boolean(),
  end: fc.boolean(),
});

/** The JSON text of a value; without an indentation on one line. */
function jsonText(value: unknown, given: Style, depth = 0): string {
  const { indent, eol, comments, trailing } = given;
  const isLines = indent !== "";
  const around = isLines ? eol + indent.repeat(depth + 1) : "";
  const close = isLines ? eol + indent.repeat(depth) : "";
  const comma = (isLast: boolean) => (isLast ? (trailing ? "," : "") : ",");
  const note = (at: number) =>
    !comments ? "" : at % 3 === 1 && isLines ? ` // note, ${at}` : at % 3 === 2 ? " /* {,} */" : "";
  const all = (parts: string[], [open, end]: [string, string]) =>
    parts.length === 0
      ? open + (comments ? "/* none */" : "") + end
      : open +
        parts.map((part, at) => `${around}${part}${comma(at === parts.length - 1)}${note(at)}`).join("") +
        close +
        end;
  if (Array.isArray(value))
    return all(
      value.map((each) => jsonText(each, given, depth + 1)),
      ["[", "]"],
    );
  if (typeof value === "object" && value !== null)
    return all(
      Object.entries(value).map(
        ([key, each]) => `${JSON.stringify(key)}: ${jsonText(each, given, depth + 1)}`,
      ),
      ["{", "}"],
    );
  return JSON.stringify(value);
}

const fileText = (value: object, given: Style): string =>
  `${given.bom ? "\uFEFF" : ""}${jsonText(value, given)}${given.end ? given.eol : ""}`;

const hookGroup = fc.record({
  matcher: fc.constantFrom("*", "Bash"),
  hooks: fc.array(fc.record({ type: fc.constant("command"), command: fc.string() }), { maxLength: 2 }),
});

/** Settings of others: also under the keys that are ours, in their shapes. */
const jsonValue = fc.record(
  {
    model: fc.string(),
    hooks: fc.dictionary(
      fc.constantFrom("Stop", "SessionStart", "PreToolUse"),
      fc.array(hookGroup, { maxLength: 2 }),
    ),
    enabledPlugins: fc.dictionary(fc.constantFrom("a@b", "c@d"), fc.boolean()),
    extraKnownMarketplaces: fc.dictionary(
      fc.constantFrom("other"),
      fc.constant({ source: { source: "github" } }),
    ),
    mcpServers: fc.dictionary(fc.string(), fc.record({ command: fc.string() })),
    packages: fc.array(fc.oneof(fc.constant("npm:other"), fc.record({ source: fc.string() }))),
    permissions: fc.jsonValue({ maxDepth: 2 }),
  },
  { requiredKeys: [] },
);

const settingsText = fc.oneof(
  { weight: 1, arbitrary: fc.constantFrom("", "\n", "{}", "{ }", "{\n}\n", "\uFEFF", "\uFEFF{}") },
  { weight: 8, arbitrary: fc.tuple(jsonValue, style).map(([value, given]) => fileText(value, given)) },
);

const ownOf = (name: AgentName, at: number): readonly OwnValue[] => agentNamed(name).settings[at]!.values;
const withoutBom = (text: string) => text.replace("\uFEFF", "");
const jsonIn = (text: string) => {
  const errors: ParseError[] = [];
  const value =
    withoutBom(text).trim() === "" ? {} : parseJson(withoutBom(text), errors, { allowTrailingComma: true });
  expect(errors).toEqual([]);
  return value;
};

/** Returns whether a text is another one with characters left out. */
function isPartOf(part: string, whole: string): boolean {
  let at = 0;
  for (const unit of part) {
    at = whole.indexOf(unit, at) + unit.length;
    if (at < unit.length) return false;
  }
  return true;
}

const OWN_JSON: [string, AgentName, number][] = [
  ["Claude Code", "claude-code", 0],
  ["Codex", "codex", 1],
  ["Pi", "pi", 0],
];

test.each(OWN_JSON)("an insertion into JSON settings of %s is removed without a trace", (_, name, at) => {
  fc.assert(
    fc.property(settingsText, (before) => {
      const values = ownOf(name, at);
      const { text, ...insertion } = jsonSettings.insert(before, values);
      for (const { path, value, isElement } of values) {
        const there = jsonSettings.read(text, path);
        if (isElement) expect(there).toContainEqual(value);
        else expect(there).toEqual(value);
      }
      expect(isPartOf(before, text)).toBe(true);
      // A strict reader still reads what it could read before.
      const isStrict = (json: string) => {
        try {
          return JSON.parse(withoutBom(json)) !== undefined;
        } catch {
          return withoutBom(json).trim() === "";
        }
      };
      expect(isStrict(text)).toBe(isStrict(before));
      expect(jsonSettings.insert(text, values)).toEqual({ text, pieces: [], made: [] });
      expect(jsonSettings.remove(text, values, insertion)).toBe(before);
      const bare = jsonSettings.remove(text, values, { pieces: [], made: insertion.made });
      expect(jsonIn(bare)).toEqual(jsonIn(before));
    }),
    { numRuns: 500 },
  );
});

test.each(OWN_JSON)("after other edits only our keys are removed from JSON settings of %s", (_, name, at) => {
  const edit = fc.record({
    path: fc.constantFrom(
      ["added"],
      ["hooks", "Stop"],
      ["enabledPlugins", "z@z"],
      ["packages"],
      ["statusLineOff"],
    ),
    value: fc.constantFrom<unknown>("x", { hooks: [] }, 7),
    where: fc.constantFrom("value", "comment", "indent", "sort"),
  });
  fc.assert(
    fc.property(settingsText, fc.array(edit, { minLength: 1, maxLength: 3 }), (before, edits) => {
      const values = ownOf(name, at);
      const { text, ...insertion } = jsonSettings.insert(before, values);
      let edited = text;
      for (const { path, value, where } of edits) {
        const isElement = path[0] === "packages" || path[0] === "hooks";
        const own = { path, value, isElement, isOurs: () => false };
        if (where === "comment") edited = edited.replace(/\}\s*$/, "// the end\n$&");
        else if (where === "indent") edited = edited.replaceAll(/\n +/g, (white) => `${white} `);
        else if (where === "sort") {
          // A program that writes the whole file anew, with its keys in another order.
          const value = jsonIn(edited) as Record<string, unknown>;
          edited = JSON.stringify(Object.fromEntries(Object.entries(value).toReversed()), null, 3);
        } else if (!hasOther(edited, own)) edited = jsonSettings.insert(edited, [own]).text;
      }
      const after = jsonSettings.remove(edited, values, insertion);
      expect(isPartOf(after, edited)).toBe(true);
      expect(after.match(/note|the end|none|\{,\}/g)).toEqual(edited.match(/note|the end|none|\{,\}/g));
      const rest = jsonIn(after);
      for (const { path, isElement, isOurs } of values) {
        const there = jsonSettings.read(after, path);
        if (isElement) expect((there as unknown[] | undefined)?.some(isOurs) ?? false).toBe(false);
        else expect(there).toBeUndefined();
      }
      // Everything else is as in the edited text: adding ours again gives the same value.
      const again = jsonIn(jsonSettings.insert(after, values).text);
      expect(sorted(again)).toEqual(sorted(jsonIn(edited)));
      expect(rest).toBeTypeOf("object");
    }),
    { numRuns: 500 },
  );
});

function hasOther(text: string, { path, value, isElement }: Omit<OwnValue, "isOurs">): boolean {
  const there = jsonSettings.read(text, path);
  return there !== undefined && !isElement && there !== value;
}

/** A value whose lists are in one order. */
function sorted(value: unknown): unknown {
  if (Array.isArray(value))
    return value.map(sorted).sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, sorted(each)]));
}

const tomlText = fc
  .record({
    top: fc.subarray([
      'model = "gpt-5"',
      "# a comment",
      "",
      'notify = ["a", "b"]',
      'text = """\n[not.a.table]\n"""',
    ]),
    tables: fc.subarray([
      '[mcp_servers.other]\ncommand = "x"\nenv = { KEY = "value" }',
      "[features]\nhooks = true # inline",
      '[[hooks.Stop]]\n[[hooks.Stop.hooks]]\ntype = "command"\ncommand = "say [done]"',
      "[profiles.fast]\n# nothing here",
      '[projects."/a b"]\ntrust_level = "trusted"\nlist = [\n  [1, 2],\n  [3],\n]',
    ]),
    eol: fc.constantFrom("\n", "\r\n"),
    bom: fc.boolean(),
    end: fc.constantFrom("", "\n", "\n\n", "\n# last"),
  })
  .map(({ top, tables, eol, bom, end }) => {
    const text = `${[...top, ...tables.map((table) => `\n${table}`)].join("\n")}${end}`;
    return (bom ? "\uFEFF" : "") + text.replaceAll("\n", eol);
  });

const tomlIn = (text: string) => JSON.parse(JSON.stringify(parseToml(withoutBom(text))));

test("an insertion into TOML settings is removed without a trace, and after other edits only our tables are removed", () => {
  const edit = fc.constantFrom(
    (text: string) => `${text}\n[later]\nkey = 1\n`,
    (text: string) => `# first\n${text}`,
    (text: string) => text.replace("[mcp_servers.espalier]", "[mcp_servers.espalier] # mine"),
    (text: string) => `${text}[mcp_servers.espalier.tools.recall]\napproval_mode = "approve"\n# a remark\n`,
    (text: string) => text.replace(/args = /, "startup_timeout_sec = 20\nargs  =  "),
  );
  fc.assert(
    fc.property(tomlText, fc.array(edit, { maxLength: 3 }), (before, edits) => {
      const values = ownOf("codex", 0);
      const { text, ...insertion } = tomlSettings.insert(before, values);
      expect(text.startsWith(before)).toBe(true);
      expect(tomlSettings.read(text, values[0]!.path)).toEqual(values[0]!.value);
      expect(tomlSettings.insert(text, values)).toEqual({ text, pieces: [], made: [] });
      expect(tomlSettings.remove(text, values, insertion)).toBe(before);
      let edited = text;
      for (const each of edits) edited = withTwiceRefused(each, edited);
      const after = tomlSettings.remove(edited, values, insertion);
      expect(isPartOf(after, edited)).toBe(true);
      const { mcp_servers: { espalier: _, ...servers } = {} as never, ...rest } = tomlIn(edited);
      const wanted = Object.keys(servers).length > 0 ? { ...rest, mcp_servers: servers } : rest;
      expect(tomlIn(after)).toEqual(wanted);
      expect(after.match(/#[^\r\n]*/g)?.filter((note) => !/mine/.test(note)) ?? []).toEqual(
        edited.match(/#[^\r\n]*/g)?.filter((note) => !/mine/.test(note)) ?? [],
      );
    }),
    { numRuns: 500 },
  );
});

/** The edited text; the text itself where the edit would define a table a second time. */
function withTwiceRefused(edit: (text: string) => string, text: string): string {
  const edited = edit(text);
  try {
    parseToml(withoutBom(edited));
    return edited;
  } catch {
    return text;
  }
}

test("install and uninstall restore a home with its files, folders, links and modes", () => {
  fc.assert(
    fc.property(
      fc.option(settingsText, { nil: undefined }),
      fc.option(tomlText, { nil: undefined }),
      fc.boolean(),
      (json, toml, isTwice) => {
        const folder = newHome();
        for (const name of AGENT_NAMES) mkdirSync(join(folder, FOLDERS[name]), { recursive: true });
        const files = [".claude/settings.json", ".codex/hooks.json", ".pi/agent/settings.json"];
        if (json !== undefined) for (const file of files) write(join(folder, file), json);
        if (toml !== undefined) write(join(folder, ".codex/config.toml"), toml);
        const before = everything(folder);
        for (const name of AGENT_NAMES) {
          install(name);
          const installed = everything(folder);
          expect(installed).not.toEqual(before);
          if (isTwice) install(name);
          expect(everything(folder)).toEqual(installed);
        }
        for (const name of AGENT_NAMES) uninstall(name);
        expect(everything(folder)).toEqual(before);
      },
    ),
    { numRuns: 25 },
  );
});

test("a first installation that fails leaves no file of ours, in whatever file it fails", () => {
  for (const name of AGENT_NAMES) {
    const folder = newHome();
    mkdirSync(join(folder, FOLDERS[name]), { recursive: true });
    const before = everything(folder);
    const plan = planInstall(agentNamed(name));
    const [, ...afterRecord] = plan.changes;
    expect(afterRecord).not.toEqual([]);
    for (const { file } of afterRecord) {
      // The state of another program's file in the moment before it is written.
      write(file, "theirs");
      const theirs = everything(folder);
      expect(() => carryOut(plan), file).toThrow("Another program changed");
      expect(everything(folder)).toEqual(theirs);
      rmSync(file);
      removeEmptyFolders(folder, Object.keys(before));
      expect(everything(folder)).toEqual(before);
    }
  }
});

/** Removes all folders but these. */
function removeEmptyFolders(folder: string, except: readonly string[]): void {
  for (const path of Object.keys(everything(folder)).toReversed())
    if (!except.includes(path)) rmdirSync(join(folder, path));
}

test("settings that cannot be read or are nested too deeply are named in one sentence, and stay", async () => {
  const file = join(home, ".claude/settings.json");
  mkdirSync(dirname(file));
  symlinkSync(file, file);
  const unreadable = await espalier(["install", "claude-code"], { env: environmentOf(home) });
  expect(unreadable).toMatchObject({
    code: 1,
    stdout: "",
    stderr: `${file} cannot be changed: it cannot be read (ELOOP); check its permissions. Nothing was changed.\n`,
  });
  rmSync(file);
  const deep = `{"a":${"[".repeat(50_000)}${"]".repeat(50_000)}}`;
  write(file, deep);
  const refused = await espalier(["install", "claude-code"], { env: environmentOf(home) });
  expect(refused).toMatchObject({
    code: 1,
    stdout: "",
    stderr: `${file} cannot be changed: its values are nested too deeply. Nothing was changed.\n`,
  });
  expect(readFileSync(file, "utf8")).toBe(deep);
});

test("a link to a missing settings file, and a record that cannot be read, are refused, and nothing changes", () => {
  const file = join(home, ".claude/settings.json");
  mkdirSync(dirname(file));
  symlinkSync(join(home, "missing"), file);
  const refused = `${file} cannot be changed: it is a link to a missing file. Nothing was changed.`;
  expect(() => install("claude-code")).toThrow(refused);
  rmSync(file);
  install("claude-code");
  write(join(home, ".espalier/agents/claude-code.json"), "{");
  const before = everything(home);
  expect(() => uninstall("claude-code")).toThrow(
    /cannot be read\. Move the file away and repeat the command/,
  );
  expect(everything(home)).toEqual(before);
});

test("numbers of TOML settings that JavaScript cannot hold stay as they are", () => {
  const values = ownOf("codex", 0);
  const before = "largest = 9223372036854775807\nleast = -9223372036854775808\n";
  const { text, ...insertion } = tomlSettings.insert(before, values);
  expect(text.startsWith(before)).toBe(true);
  expect(tomlSettings.remove(text, values, insertion)).toBe(before);
  expect(tomlSettings.remove(`# theirs\n${text}`, values, insertion)).toBe(`# theirs\n${before}`);
});

test("a link to a settings file is followed, and the mode of the file stays", () => {
  const real = join(home, "dotfiles/settings.json");
  write(real, '{ "model": "opus" }');
  chmodSync(real, 0o640);
  mkdirSync(join(home, ".claude"));
  symlinkSync(real, join(home, ".claude/settings.json"));
  install("claude-code");
  expect(lstatSync(join(home, ".claude/settings.json")).isSymbolicLink()).toBe(true);
  expect(statSync(real).mode & 0o777).toBe(0o640);
  expect(JSON.parse(readFileSync(real, "utf8"))).toMatchObject({
    enabledPlugins: { "espalier@espalier": true },
  });
  uninstall("claude-code");
  expect(readFileSync(real, "utf8")).toBe('{ "model": "opus" }');
});

test("a status line of the user is kept", () => {
  const text = '{ "statusLine": { "type": "command", "command": "mine" } }';
  write(join(home, ".claude/settings.json"), text);
  const plan = planInstall(agentNamed("claude-code"));
  expect(plan.notes).toContain("Your own status line stays, because Claude Code shows only one.");
  carryOut(plan);
  const settings = JSON.parse(readFileSync(join(home, ".claude/settings.json"), "utf8"));
  expect(settings.statusLine.command).toBe("mine");
  uninstall("claude-code");
  expect(readFileSync(join(home, ".claude/settings.json"), "utf8")).toBe(text);
});

test("notes and the log of hooks are removed with the last agent", () => {
  for (const name of ["claude-code", "codex"] as const) {
    mkdirSync(join(home, FOLDERS[name]), { recursive: true });
    install(name);
    write(join(home, ".espalier/agents/hooks", name, "a.json"), "{}");
  }
  write(join(home, ".espalier/agents/hooks/hooks.log"), "a line\n");
  uninstall("claude-code");
  expect(everything(join(home, ".espalier/agents/hooks"))).toMatchObject({
    "codex/a.json": expect.any(String),
  });
  expect(existsSync(join(home, ".espalier/agents/hooks/hooks.log"))).toBe(true);
  uninstall("codex");
  expect(existsSync(join(home, ".espalier"))).toBe(false);
});

/** Writes the file of a session into the store of the home. */
function storeSession(id: string, importedFrom?: { agent: AgentName }): string {
  const file = join(home, `.espalier/sessions/garden-1/2026-01-01T00-00-00-000Z_${id}.jsonl`);
  const from = importedFrom ? { importedFrom: { ...importedFrom, id } } : {};
  const header = {
    type: "session",
    version: 3,
    id,
    timestamp: "2026-01-01T00:00:00.000Z",
    cwd: "/",
    ...from,
  };
  write(file, `${JSON.stringify(header)}\n`);
  return file;
}

test("all that hooks and the server kept leaves with the last agent; sessions and settings stay", () => {
  const kept = fc.subarray([
    "agents/hooks/hooks.log",
    "agents/hooks/hooks.log.1",
    "agents/hooks/claude-code/a.json",
    "agents/hooks/codex/b.json",
    "agents/hooks/codex/b.json.again",
    "imported.json",
    "imported.json.lease",
    "listings.json",
    "ids/known",
    "sessions/empty-1/",
  ]);
  const agents = fc.shuffledSubarray([...AGENT_NAMES], { minLength: 1 });
  const sources = fc.array(fc.constantFrom(undefined, ...AGENT_NAMES), { maxLength: 3 });
  fc.assert(
    fc.property(agents, kept, sources, fc.boolean(), (names, files, from, hasSettings) => {
      home = newHome();
      const ours = join(home, ".espalier");
      for (const name of names) mkdirSync(join(home, FOLDERS[name]), { recursive: true });
      if (hasSettings) write(join(ours, "settings.json"), "{}");
      for (const [at, agent] of from.entries()) storeSession(`s${at}`, agent && { agent });
      const before = everything(home);
      for (const name of names) install(name);
      for (const file of files)
        if (file.endsWith("/")) mkdirSync(join(ours, file), { recursive: true });
        else write(join(ours, file), "x");
      const indexes = from.length === 0 ? {} : everything(home);
      for (const name of names) {
        const plan = planUninstall(agentNamed(name));
        const told = plan.notes.filter((note) => note.startsWith("Sessions imported from "));
        expect(told.length).toBe(from.length === 0 ? 0 : 1);
        carryOut(plan);
      }
      const isIndex = (path: string) => /^\.espalier\/(ids|listings\.json|sessions\/empty-1)/.test(path);
      const stays = Object.entries(indexes).filter(([path]) => isIndex(path));
      expect(everything(home)).toEqual({ ...before, ...Object.fromEntries(stays) });
    }),
    { numRuns: 60 },
  );
});

test("a removal says which sessions stay, where they are, and how they are removed", async () => {
  mkdirSync(join(home, ".codex"));
  const env = environmentOf(home);
  await espalier(["install", "codex"], { env });
  const file = storeSession("s1", { agent: "codex" });
  storeSession("s2");
  write(join(home, ".espalier/imported.json"), "{}");
  const record = join(home, ".espalier/imported.json");
  const dry = await espalier(["uninstall", "codex", "--dry-run"], { env });
  expect(dry.stdout).toContain(`\ndelete ${record}\n`);
  expect(existsSync(record)).toBe(true);
  const { code, stdout } = await espalier(["uninstall", "codex"], { env });
  expect(code).toBe(0);
  expect(stdout).toContain(`\ndelete ${record}\n`);
  expect(stdout).toContain("\nSessions imported from Codex stay, as they are yours: ");
  expect(stdout).toContain(`Delete those, or all of Espalier with the folder ${join(home, ".espalier")}.\n`);
  expect(await listedBy(stdout, env)).toEqual([file]);
});

test("a removal from Pi lists for deletion only imported sessions, and none of Pi's own", async () => {
  mkdirSync(join(home, ".pi/agent"), { recursive: true });
  const env = environmentOf(home);
  await espalier(["install", "pi"], { env });
  const file = storeSession("s1", { agent: "pi" });
  write(join(home, ".pi/agent/sessions/garden/own.jsonl"), readFileSync(file, "utf8"));
  const { stdout } = await espalier(["uninstall", "pi"], { env });
  expect(await listedBy(stdout, env)).toEqual([file]);
});

/** Runs the command that a removal names, and returns the files that it prints. */
async function listedBy(stdout: string, env: Record<string, string | undefined>): Promise<string[]> {
  const [, list = ""] = /`espalier (list .*?)` prints their files/.exec(stdout)!;
  const { values } = await espalierJson(list.replace(" --json", "").split(" "), { env });
  return values.map((value) => value.file);
}

test("what the agent itself recorded of the plugin leaves with it", () => {
  mkdirSync(join(home, ".claude"));
  install("claude-code");
  const known = join(home, ".claude/plugins/known_marketplaces.json");
  const ours = { source: { source: "directory", path: join(home, ".espalier/agents/claude-code") } };
  write(known, JSON.stringify({ other: { source: {} }, espalier: ours }, null, 2));
  const plugins = join(home, ".claude/plugins/installed_plugins.json");
  write(
    plugins,
    JSON.stringify({ version: 2, plugins: { "espalier@espalier": [{ scope: "user" }], "a@b": [] } }),
  );
  uninstall("claude-code");
  expect(JSON.parse(readFileSync(known, "utf8"))).toEqual({ other: { source: {} } });
  expect(JSON.parse(readFileSync(plugins, "utf8"))).toEqual({ version: 2, plugins: { "a@b": [] } });
  // A record that cannot be read keeps nothing else from being removed.
  install("claude-code");
  write(known, "{");
  const plan = planUninstall(agentNamed("claude-code"));
  expect(plan.notes).toContain(`Claude Code's own record ${known} cannot be read and was not changed.`);
  carryOut(plan);
  expect(existsSync(join(home, ".claude/settings.json"))).toBe(false);
  expect(readFileSync(known, "utf8")).toBe("{");
});

const REFUSED: [string, AgentName, string, string | Buffer, RegExp][] = [
  ["broken JSON", "claude-code", "settings.json", '{ "model": ', /is not JSON \(line 1/],
  ["a list", "claude-code", "settings.json", "[]", /is not a JSON object/],
  [
    "another shape",
    "claude-code",
    "settings.json",
    '{"enabledPlugins": []}',
    /its enabledPlugins is not an object/,
  ],
  [
    "a plugin of that name",
    "claude-code",
    "settings.json",
    '{"extraKnownMarketplaces":{"espalier":{}}}',
    /not Espalier's/,
  ],
  ["hooks of another shape", "codex", "hooks.json", '{"hooks":{"Stop":{}}}', /its hooks\.Stop is not a list/],
  ["broken TOML", "codex", "config.toml", "model = ", /is not TOML \(line 1\)/],
  [
    "a server of that name",
    "codex",
    "config.toml",
    '[mcp_servers.espalier]\ncommand = "x"\nargs = []',
    /not Espalier's/,
  ],
  [
    "an inline table",
    "codex",
    "config.toml",
    "mcp_servers = {}",
    /a table \[mcp_servers\.espalier\] cannot be added/,
  ],
  ["bytes that are no text", "pi", "settings.json", Buffer.from([0x7b, 0xff, 0x7d]), /is not UTF-8 text/],
];

test.each(REFUSED)(
  "a settings file with %s is refused in one sentence; nothing changes",
  async (_, name, file, text, why) => {
    write(join(home, FOLDERS[name], file), "");
    writeFileSync(join(home, FOLDERS[name], file), text);
    const before = everything(home);
    const { code, stderr, stdout } = await espalier(["install", name], { env: environmentOf(home) });
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toMatch(/^[^\n]+ cannot be changed: [^\n]+ Nothing was changed\.\n$/);
    expect(stderr).toMatch(why);
    expect(everything(home)).toEqual(before);
  },
);

test("an agent that is not installed is reported in one sentence", async () => {
  for (const name of AGENT_NAMES) {
    const env = { ...environmentOf(home), PATH: dirname(process.execPath) };
    const { code, stderr } = await espalier(["install", name], { env: { ...env, PATH: home } });
    expect(code).toBe(1);
    expect(stderr).toMatch(
      /^[^\n]+ is not installed: there is no folder [^\n]+ Install it, then repeat this command\.\n$/,
    );
  }
  expect(everything(home)).toEqual({});
});

test("a dry run prints a diff and changes nothing", async () => {
  write(join(home, ".codex/config.toml"), 'model = "gpt-5"\n');
  const before = everything(home);
  const run = await espalier(["install", "codex", "--dry-run"], { env: environmentOf(home) });
  expect(run).toMatchObject({ code: 0, stderr: "" });
  const config = join(home, ".codex/config.toml");
  expect(run.stdout).toContain(
    `--- ${config}\n+++ ${config}\n@@ -1,1 +1,5 @@\n model = "gpt-5"\n+\n+[mcp_servers.espalier]\n`,
  );
  expect(run.stdout).toContain(`--- /dev/null\n+++ ${join(home, ".codex/hooks.json")}\n@@ -0,0 +1,`);
  const files = [...run.stdout.matchAll(/^\+\+\+ (.*)$/gm)].map(([, file]) => file);
  expect(files.at(-1), "the agent's own files are before those of Espalier").toBe(
    join(home, ".espalier/agents/codex.json"),
  );
  expect(everything(home)).toEqual(before);
});

test("the extension for Pi is found when npm starts the command by a link", async () => {
  mkdirSync(join(home, ".pi/agent"), { recursive: true });
  const link = join(home, "bin/espalier");
  mkdirSync(dirname(link));
  symlinkSync(await bundled(), link);
  execFileSync(process.execPath, [link, "install", "pi"], {
    env: { ...process.env, ...environmentOf(home) },
  });
  const text = readFileSync(join(home, ".espalier/agents/pi/extension.js"), "utf8");
  const [, file = ""] = /from "(.*)";/.exec(text) ?? [];
  expect(existsSync(file)).toBe(true);
});

test("in a clone, a dry run works before the first installation has linked the command", async () => {
  mkdirSync(join(home, ".pi/agent"), { recursive: true });
  const main = join(home, "installed/main.js");
  const start = `process.argv.splice(1, 0, ${JSON.stringify(main)}); await import(${JSON.stringify(pathToFileURL(await bundled()).href)});`;
  const parameters = ["--input-type=module", "-e", start, "install", "pi", "--dry-run"];
  const diff = execFileSync(process.execPath, parameters, {
    env: { ...process.env, ...environmentOf(home) },
    encoding: "utf8",
  });
  expect(diff).toContain(`from ${JSON.stringify(join(dirname(main), "pi-extension.js"))};`);
});

test("the command installs, reports its changes, and reverts all of them", async () => {
  mkdirSync(join(home, ".codex"));
  const before = everything(home);
  const env = environmentOf(home);
  const installed = await espalierJson(["install", "codex"], { env });
  expect(installed).toMatchObject({ code: 0, stderr: "", value: { agent: "codex" } });
  expect(installed.value.files.map(({ change }: { change: string }) => change)).toEqual([
    "create",
    "create",
    "create",
  ]);
  expect(existsSync(join(home, ".codex/hooks.json"))).toBe(true);
  expect((await espalier(["install", "codex"], { env })).stdout).toBe(
    "Espalier is installed in Codex; nothing was changed.\n",
  );
  expect((await espalier(["uninstall", "codex"], { env })).code).toBe(0);
  expect(everything(home)).toEqual(before);
  expect((await espalier(["uninstall", "codex"], { env })).stdout).toBe(
    "Espalier is not installed in Codex; nothing was changed.\n",
  );
});
