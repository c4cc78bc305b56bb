import { mkdirSync, mkdtempSync, readdirSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import {
  createExtensionHost,
  decideHook,
  ExtensionError,
  type ExtensionReport,
  HANDLER_LIMIT_MS,
} from "@espalier/extensions";
import { loadExtension } from "@espalier/extensions/node";
import { afterAll, beforeAll, expect, it, vi } from "vitest";

let folder = "";
beforeAll(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), "extensions-")));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function write(name: string, text: string): string {
  const file = join(folder, name);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
  return file;
}
const failure = (file: string): Promise<unknown> =>
  loadExtension(file).then(
    () => "loaded",
    (error: unknown) => error,
  );

class Ground {
  readonly roots = 3;
}
const ground = { Ground, seen: [] as unknown[] };

it("a TypeScript file loads with its imports, its enums, and the host's own instance of a module", async () => {
  write(
    "parts/season.ts",
    "export enum Season { Spring = 1, Autumn = 3 }\nexport const state = { loads: 0 };",
  );
  write(
    "parts/count.ts",
    'import { state } from "./season.ts";\nexport const count = (): number => ++state.loads;',
  );
  const file = write(
    "typed.ts",
    `import { readFileSync } from "node:fs";
     import { Ground, seen } from "the-host";
     import { count } from "./parts/count";
     import { Season, state } from "./parts/season.ts";
     interface Api { name: string }
     export default (api: Api): void => {
       count();
       seen.push(new Ground(), Season.Autumn, state.loads, api.name satisfies string, typeof readFileSync);
     };`,
  );
  const setup = await loadExtension(file, { virtualModules: { "the-host": ground } });
  await setup({ name: "api" });
  expect(ground.seen.slice(1)).toEqual([3, 1, "api", "function"]);
  expect(ground.seen[0]).toBeInstanceOf(Ground);
});

it("a file is read again each time, also after a change of its imports", async () => {
  write("word.ts", 'export const word = "old";');
  const file = write(
    "again.ts",
    'import { word } from "./word.ts";\nexport default (said: string[]) => { said.push(word); };',
  );
  const said: string[] = [];
  await (await loadExtension(file))(said);
  write("word.ts", 'export const word = "new";');
  await (await loadExtension(file))(said);
  expect(said).toEqual(["old", "new"]);
});

it.each([
  ["again.mjs", 'import { word } from "the-host";\nexport default () => word + "old";'],
  ["again.cjs", 'const { word } = require("the-host");\nmodule.exports = () => word + "old";'],
  ["module/again.js", 'import { word } from "the-host";\nexport default () => word + "old";'],
])("%s is read again too, and gets the host's module before an installed one", async (name, text) => {
  write("node_modules/the-host/index.js", 'exports.word = "installed and ";');
  write("module/package.json", '{ "type": "module" }');
  const options = { virtualModules: { "the-host": { word: "lent and " } } };
  const before = await (await loadExtension(write(name, text), options))({});
  const after = await (await loadExtension(write(name, text.replace("old", "new")), options))({});
  expect([before, after]).toEqual(["lent and old", "lent and new"]);
});

it.each([
  ["module.mjs", "export default () => 'esm';"],
  ["script.js", "module.exports = () => 'cjs';"],
  ["a folder/ü #1%41.ts", "export default (): string => 'any name';"],
  ["plain.js", "export default function () { return 'esm in js'; }"],
  ["waits.ts", "await new Promise((resolve) => setTimeout(resolve, 1));\nexport default async () => {};"],
])("%s loads as well", async (name, text) => {
  const setup = await loadExtension(write(name, text));
  expect(setup).toBeTypeOf("function");
});

it("compiled files are kept only in the given folder", async () => {
  const cacheDir = join(folder, "cache");
  const file = write("kept.ts", "export default (said: string[]): void => { said.push('x'); };");
  const temporary = join(folder, "temporary");
  mkdirSync(temporary);
  vi.stubEnv("TMPDIR", temporary);
  await loadExtension(file);
  vi.unstubAllEnvs();
  expect(readdirSync(temporary)).toEqual([]);
  await loadExtension(file, { cacheDir });
  expect(readdirSync(cacheDir).some((name) => name.includes("kept"))).toBe(true);
  const said: string[] = [];
  await (await loadExtension(file, { cacheDir }))(said);
  expect(said).toEqual(["x"]);
});

it.each([
  [
    "there is no such file",
    "missing.ts",
    undefined,
    "not-found",
    /^There is no extension to load \(ENOENT: .+missing\.ts'\); check the path\.$/,
  ],
  ["it is a folder", "parts", undefined, "not-found", /parts is not a file; name the module itself/],
  [
    "it cannot be parsed",
    "broken.ts",
    "export default () => {\n  const x = ;\n};",
    "syntax-error",
    /^\S+broken\.ts cannot be read as TypeScript: Unexpected token at \S+broken\.ts:2:12\.$/,
  ],
  [
    "what it imports cannot be parsed",
    "imports-broken.ts",
    'import "./broken.ts";\nexport default () => {};',
    "syntax-error",
    /^\S+imports-broken\.ts cannot .+ at \S+\/broken\.ts:2:12\.$/,
  ],
  [
    "it has no default export",
    "named.ts",
    "export const setup = () => {};",
    "no-default-export",
    /exports no function by default; write "export default \(api\)/,
  ],
  [
    "its default export is no function",
    "value.ts",
    "export default { on: 1 };",
    "no-default-export",
    /exports no function/,
  ],
  ["it is empty", "empty.ts", "", "no-default-export", /exports no function/],
  [
    "it throws",
    "throws.ts",
    "\n\nthrow new TypeError('no key');\nexport default () => {};",
    "load-failed",
    /throws\.ts failed while it was loaded: no key$/,
  ],
  [
    "it throws nothing at all",
    "throws-null.ts",
    "throw null;",
    "load-failed",
    /throws-null\.ts failed while it was loaded: /,
  ],
  [
    "it imports what is not there",
    "lost.ts",
    'import { x } from "./nowhere.ts";\nexport default () => x;',
    "load-failed",
    /^\S+lost\.ts failed while it was loaded: Cannot find module '\.\/nowhere\.ts'$/,
  ],
])("one sentence reports that %s", async (_, name, text, code, message) => {
  const file = text === undefined ? join(folder, name) : write(name, text);
  const error = await failure(file);
  expect(error).toBeInstanceOf(ExtensionError);
  expect(error).toMatchObject({ code, owner: file, message: expect.stringMatching(message) });
});

it("a module that never finishes loading is abandoned", async () => {
  const file = write("hangs.ts", "await new Promise(() => {});\nexport default () => {};");
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    const refused = expect(loadExtension(file)).rejects.toMatchObject({
      code: "load-timed-out",
      owner: file,
    });
    while (vi.getTimerCount() === 0) await new Promise((resolve) => setImmediate(resolve));
    vi.advanceTimersByTime(HANDLER_LIMIT_MS);
    await refused;
  } finally {
    vi.useRealTimers();
  }
});

it("the stack of an error names the line of the TypeScript file", async () => {
  const file = write(
    "line.ts",
    "interface A { x: number }\n\nexport default (): A => {\n  throw new Error('here');\n};",
  );
  const setup = await loadExtension(file);
  expect(() => setup({})).toThrow(expect.objectContaining({ stack: expect.stringContaining(`${file}:4:`) }));
});

it.each([
  [
    "value.ts",
    "@earendil-works/pi-ai",
    'import { uuidv7 } from "@earendil-works/pi-ai";\nexport default () => uuidv7();',
  ],
  [
    "deep.mjs",
    "@mariozechner/pi-tui",
    'import * as tui from "@mariozechner/pi-tui/components.js";\nexport default () => tui;',
  ],
  ["inner.ts", "@earendil-works/pi-ai", 'import "./value.ts";\nexport default () => {};'],
])("an extension that runs a package of Pi is refused by name: %s", async (name, foreign, text) => {
  write("pi/value.ts", 'import { uuidv7 } from "@earendil-works/pi-ai";\nexport const id = uuidv7();');
  // Also where it is installed.
  write("pi/node_modules/@earendil-works/pi-ai/index.js", "exports.uuidv7 = () => 7;");
  write("pi/node_modules/@mariozechner/pi-tui/components.js", "exports.Box = class {};");
  const file = write(`pi/${name}`, text);
  const error = await failure(file);
  expect(error).toMatchObject({ code: "foreign-package", owner: file });
  expect((error as Error).message).toMatch(
    new RegExp(`^${file} imports ${foreign}, which belongs to another agent .+\\.$`),
  );
});

it("a module of that name that the host provides is accepted", async () => {
  const file = write(
    "lent.ts",
    'import { uuidv7 } from "@earendil-works/pi-ai";\nexport default (said: string[]) => { said.push(uuidv7()); };',
  );
  const said: string[] = [];
  const virtualModules = { "@earendil-works/pi-ai": { uuidv7: () => "lent" } };
  await (await loadExtension(file, { virtualModules }))(said);
  expect(said).toEqual(["lent"]);
});

interface Preparation {
  firstKeptEntryId: string;
  tokensBefore: number;
}
const beforeCompact = decideHook<
  { preparation: Preparation; signal: AbortSignal },
  { compaction: { summary: string } & Partial<Preparation>; instructions: string }
>("session_before_compact", { fields: { compaction: "one", instructions: "join" } });

it("an extension written for Pi runs unchanged, even with types and hooks that only Pi has", async () => {
  const file = write(
    "pi-extension.ts",
    `import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
     import { type Usage } from "@earendil-works/pi-ai";
     export default (pi: ExtensionAPI) => {
       pi.on("tool_call", async () => undefined);
       pi.on("session_before_compact", async (event, ctx) => {
         const { preparation, signal } = event;
         if (signal.aborted) return;
         ctx.ui.notify(event.type, "info");
         return {
           compaction: {
             summary: "in one word",
             firstKeptEntryId: preparation.firstKeptEntryId,
             tokensBefore: preparation.tokensBefore,
           },
         };
       });
     };`,
  );
  const reports: ExtensionReport[] = [];
  const host = createExtensionHost({
    hooks: { session_before_compact: beforeCompact },
    onReport: (report) => reports.push(report),
  });
  const setup = await loadExtension(file);
  await host.register(file, setup);
  const said: string[] = [];
  const context = { signal: undefined, ui: { notify: (text: string) => said.push(text) } };
  const preparation = { firstKeptEntryId: "e7", tokensBefore: 1234 };
  const payload = { preparation, signal: new AbortController().signal };
  const decision = await host.decide(beforeCompact, payload, context);
  expect(decision.answer).toEqual({ compaction: { summary: "in one word", ...preparation } });
  expect(decision.owners).toEqual({ compaction: [file] });
  expect(said).toEqual(["session_before_compact"]);
  expect(reports.map(({ kind, hook }) => [kind, hook])).toEqual([["unknown-hook", "tool_call"]]);
});

it("a lazy import of a package of Pi is refused when it runs, and reported like any failure of a handler", async () => {
  const file = write(
    "lazy.ts",
    `export default (pi: any) => {
       pi.on("session_before_compact", async () => (await import("@earendil-works/pi-ai")).anything);
     };`,
  );
  const host = createExtensionHost({ hooks: { session_before_compact: beforeCompact } });
  await host.register(file, await loadExtension(file));
  const payload = {
    preparation: { firstKeptEntryId: "e", tokensBefore: 1 },
    signal: new AbortController().signal,
  };
  const { answer, reports } = await host.decide(beforeCompact, payload, {});
  expect(answer).toEqual({});
  expect(reports).toMatchObject([{ kind: "threw", owners: [file], error: { code: "foreign-package" } }]);
});
