import { execFileSync } from "node:child_process";
import {
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { POLICIES } from "@espalier/compaction/policies";
import {
  createSession,
  DEFAULT_SETTINGS,
  openTrust,
  resolvePolicy,
  resolveSettings,
  resolveSummarizer,
  SETTING_EFFECTS,
  SETTINGS,
  SETTINGS_KEYS,
  type SettingEffect,
  type Settings,
  type SettingsKey,
  type SettingsSources,
  sessionOptionsOf,
  settingsJsonSchema,
} from "@espalier/engine";
import { EspalierError } from "@espalier/jsonl-stream";
import { memoryStore } from "@espalier/session-tree";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { z } from "zod";

let home: string;
let cwd: string;

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "espalier-home-"));
  cwd = mkdtempSync(join(tmpdir(), "espalier-project-"));
  mkdirSync(join(cwd, ".espalier"));
});

afterEach(() => {
  for (const folder of [home, cwd]) rmSync(folder, { recursive: true, force: true });
});

/** Trusts the project with what its files say now. */
const trusted = () => openTrust(home).trust(cwd);

const user = (text: string | object, name = "settings.json") => write(home, name, text);
const project = (text: string | object, name = "settings.json") => write(join(cwd, ".espalier"), name, text);

function write(folder: string, name: string, text: string | object): string {
  const file = join(folder, name);
  writeFileSync(file, typeof text === "string" ? text : JSON.stringify(text));
  return file;
}

const resolved = (sources: SettingsSources = {}) => resolveSettings({ home, cwd, env: {}, ...sources });

async function originOf(key: SettingsKey, sources: SettingsSources = {}) {
  const { origins } = await resolved(sources);
  return origins.find((origin) => origin.key === key);
}

/** What resolving fails with. */
async function problem(sources: SettingsSources = {}): Promise<EspalierError> {
  const error = await resolved(sources).then(
    () => undefined,
    (thrown: unknown) => thrown,
  );
  expect(error).toBeInstanceOf(EspalierError);
  expect((error as EspalierError).code).toBe("settings");
  return error as EspalierError;
}

it("the schema of settings is made at the first values to check, and not again", async () => {
  user({ keepLast: 9 });
  expect(await originOf("keepLast")).toMatchObject({ value: 9 });
  // Each described schema enters the registry of zod.
  const described = vi.spyOn(z.globalRegistry, "add");
  const env = { ESPALIER_COMPACT_RETRY_COUNT: "2" };
  expect(await originOf("retryCount", { env })).toMatchObject({ value: 2 });
  expect(JSON.stringify(await settingsJsonSchema())).toContain('"keepLast"');
  expect(described).not.toHaveBeenCalled();
  described.mockRestore();
});

it("errors never repeat a key given as a value, as a name, or in an unreadable file", async () => {
  const known = `gh${"p"}_${"aB3dE5gH7jK9".repeat(3)}`;
  const unknown = "3f2c1b0a9d8e7f6a".repeat(2);
  for (const key of [known, unknown]) {
    for (const text of [{ fallback: key }, { keepLast: [key] }, { policy: key }, `{"policy": ${key}}`]) {
      user(text);
      const { message } = await problem();
      expect(message).not.toContain(key.slice(0, 12));
    }
    user({});
    const { message } = await problem({ flags: { policy: key } as never });
    expect(message).not.toContain(key);
  }
  user({ [known]: true });
  expect(await problem().then(({ message, key }) => `${message} ${key}`)).not.toContain(known);
  expect(() => resolveSummarizer(known)).toThrow(/^There is no summarizer "\[redacted github token\]"/);
  expect(() => resolvePolicy(known)).toThrow(/^There is no policy "\[redacted github token\]"/);
});

it("a size of a session that is undefined has its default, and one that is not a number is refused", async () => {
  const open = (compaction: object) => createSession({ store: memoryStore(), compaction });
  for (const value of [Number.NaN, "20000", null, -1]) {
    const refused = { code: "settings", message: expect.stringContaining("contextWindow") };
    await expect(open({ contextWindow: value })).rejects.toMatchObject(refused);
    await expect(
      (await open({})).compact({ settings: { contextWindow: value as never } }),
    ).rejects.toMatchObject(refused);
  }
  await expect(open({ autoCompact: "false" })).rejects.toMatchObject({ code: "settings" });
  const session = await open({ contextWindow: undefined });
  await session.appendMessages([{ role: "user", content: "Water the beds. ".repeat(60_000) }]);
  await expect(session.prepareRequest()).rejects.toMatchObject({ code: "irreducible" });
});

it("the summarizer anthropic, and the default one, ask the model of the settings", () => {
  const settings = { anthropicApiKey: "key", model: "anthropic/claude-haiku-4-5" };
  for (const name of ["anthropic", undefined])
    expect(resolveSummarizer(name, { settings }).model).toMatchObject({ modelId: "claude-haiku-4-5" });
  expect(resolveSummarizer("anthropic:claude-opus-4-1", { settings }).model?.modelId).toBe("claude-opus-4-1");
});

describe("the origin of a setting", () => {
  it("is the default if no layer sets it", async () => {
    const { values, origins, ignored } = await resolved();
    expect(values).toEqual(DEFAULT_SETTINGS);
    expect(origins.map(({ key }) => key)).toEqual(SETTINGS_KEYS);
    expect(new Set(origins.map(({ origin }) => origin))).toEqual(new Set(["default"]));
    expect(ignored).toEqual([]);
  });

  it("is the last of user file, project file, environment and flags that sets it", async () => {
    const steps: [() => SettingsSources | undefined, number, string][] = [
      [() => void user({ keepLast: 11 }), 11, "user"],
      [() => void project({ keepLast: 12 }), 12, "project"],
      [() => ({ env: { ESPALIER_COMPACT_KEEP_LAST: "13" } }), 13, "environment"],
      [() => ({ env: { ESPALIER_COMPACT_KEEP_LAST: "13" }, flags: { keepLast: 14 } }), 14, "flag"],
    ];
    for (const [say, value, origin] of steps) {
      const sources = say() ?? {};
      await trusted();
      expect(await originOf("keepLast", sources)).toMatchObject({ value, origin });
    }
  });

  it("names the file or the variable", async () => {
    const file = user("[behavior]\nmax_context_tokens = 9000\n", "settings.toml");
    const sources = { env: { ESPALIER_COMPACT_MODEL: "claude-small" } };
    expect(await originOf("maxContextTokens", sources)).toEqual({
      key: "maxContextTokens",
      value: 9000,
      origin: "user",
      file,
      variable: null,
    });
    expect(await originOf("model", sources)).toMatchObject({
      file: null,
      variable: "ESPALIER_COMPACT_MODEL",
    });
  });

  it("is the highest layer that sets it, for any combination of layers", async () => {
    const layers = ["user", "project", "environment", "flag"] as const;
    await fc.assert(
      fc.asyncProperty(
        fc.subarray([...layers]),
        fc.array(fc.integer({ min: 1, max: 39 }), { minLength: 4, maxLength: 4 }),
        async (said, numbers) => {
          const of = (layer: (typeof layers)[number]) => numbers[layers.indexOf(layer)]!;
          user(said.includes("user") ? { tail_keep_size: of("user") } : {});
          project(said.includes("project") ? { tailKeepSize: of("project") } : {});
          await trusted();
          const env = said.includes("environment")
            ? { ESPALIER_COMPACT_TAIL_KEEP_SIZE: String(of("environment")) }
            : {};
          const flags = said.includes("flag") ? { tailKeepSize: of("flag") } : {};
          const highest = said.at(-1);
          expect(await originOf("tailKeepSize", { env, flags })).toMatchObject({
            value: highest ? of(highest) : 40,
            origin: highest ?? "default",
          });
        },
      ),
      { numRuns: 40 },
    );
  });
});

describe("a settings file", () => {
  it("may be TOML with the table of origins 004, word for word", async () => {
    user(
      "[behavior]\n# Session compaction settings\nmax_context_tokens = 8100       # Maximum context window\ncompaction_threshold = 70\nauto_compact = false\n",
      "settings.toml",
    );
    const { values } = await resolved();
    expect(values).toMatchObject({ maxContextTokens: 8100, compactionThreshold: 70, autoCompact: false });
  });

  it("may have every key in snake_case, with the same meaning", async () => {
    const { policy, extensions: _, ...sizes } = DEFAULT_SETTINGS;
    const snake = (key: string) => key.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
    const changed = Object.fromEntries(
      Object.entries(sizes).map(([key, value]) => [
        key,
        typeof value === "number" && key !== "retryCount" ? value + 1 : value,
      ]),
    );
    user({
      policy,
      ...Object.fromEntries(Object.entries(changed).map(([key, value]) => [snake(key), value])),
    });
    expect((await resolved()).values).toMatchObject(changed);
  });

  it("cannot be JSON and TOML at once", async () => {
    const json = user({});
    const toml = user("", "settings.toml");
    const { message, file } = await problem();
    expect(message).toContain(toml);
    expect(file).toBe(json);
  });

  it.each([
    ["settings.json", "{", "cannot be read"],
    ["settings.json", "[]", "no table"],
    ["settings.toml", "keep_last = = 3", "cannot be read"],
  ])("that is broken (%s: %s) is named", async (name, text, told) => {
    const file = user(text, name);
    const { message } = await problem();
    expect(message).toContain(file);
    expect(message).toContain(told);
  });

  it("that is broken is not quoted, because it can have a key of any form", async () => {
    user('{ "anthropicApiKey": pear-4711, }');
    const { message } = await problem();
    expect(message).toContain("cannot be read");
    expect(message).not.toMatch(/pear|4711|Key/);
  });

  it("cannot have the same key in both spellings", async () => {
    user({ keepLast: 5, keep_last: 6 });
    expect((await problem()).message).toContain("keepLast is in it twice");
  });
});

describe("a bad value", () => {
  it.each<[string, unknown, string]>([
    ["retryCount", 0, "a whole number from 1 to 10"],
    ["retryCount", 11, "a whole number from 1 to 10"],
    ["contextSize", "many", "a whole number from 2 on"],
    ["reserveTokens", -1, "a share of the window between 0 and 1"],
    ["reserveTokens", 0, "a share of the window between 0 and 1"],
    ["keepRecentTokens", 1.5, "a whole number of tokens from 1 on"],
    ["compactionThreshold", 101, "percent from 1 to 100"],
    ["policy", "clever", "sliding-window"],
    ["autoCompact", "yes", "true or false"],
    ["summarizer", "gpt", "anthropic:MODEL"],
    ["extensions", "one.ts", "a list of files"],
  ])("%s: %j names the file, the key and the allowed values", async (key, value, allowed) => {
    const file = user({ [key]: value });
    const error = await problem();
    expect(error.message).toContain(file);
    expect(error.message).toContain(`${key} is ${JSON.stringify(value)}`);
    expect(error.message).toContain(allowed);
    expect(error).toMatchObject({ key, file });
  });

  it("of the environment names the variable", async () => {
    const error = await problem({ env: { ESPALIER_COMPACT_RETRY_COUNT: "often" } });
    expect(error.message).toContain("ESPALIER_COMPACT_RETRY_COUNT");
    expect(error.message).toContain("from 1 to 10");
    const { message } = await problem({ env: { ESPALIER_COMPACT_FALLBACK: "constructor" } });
    expect(message).toContain('fallback is "constructor"; give it true or false');
  });

  it("with a missing part names the part", async () => {
    user({ prices: { "provider/model": { input: 1 } } });
    expect((await problem()).message).toMatch(
      /prices lacks output; give it a table of input and output, and of/,
    );
    user({ prices: { "provider/model": { input: 1, output: 5 } } });
    await expect(resolved({})).resolves.toBeDefined();
  });

  it("under an unknown key lists the known keys", async () => {
    user({ keepLats: 3 });
    expect((await problem()).message).toMatch(/keepLats.*keepLast/);
  });

  it("that contradicts another setting names both, and the file of the written one", async () => {
    const file = project({ tail_keep_size: 75 });
    await trusted();
    const { message } = await problem();
    expect(message).toContain(file);
    expect(message).toMatch(/tailKeepSize.*contextSize/);
  });
});

describe("the environment", () => {
  it("has the five variables of origins 003 under both names; Espalier's name has priority", async () => {
    const synapse = {
      SYNAPSE_COMPACT_TRIGGER_THRESHOLD: "1000",
      SYNAPSE_COMPACT_TARGET_TOKENS: "2000",
      SYNAPSE_COMPACT_PRESERVE_COUNT: "7",
      SYNAPSE_COMPACT_MODEL: "old",
      SYNAPSE_COMPACT_RETRY_COUNT: "2",
    };
    const fromSynapse = {
      triggerTokens: 1000,
      targetTokens: 2000,
      preserveCount: 7,
      model: "old",
      retryCount: 2,
    };
    expect((await resolved({ env: synapse })).values).toMatchObject(fromSynapse);
    const ours = { ESPALIER_COMPACT_TRIGGER_THRESHOLD: "3000", ESPALIER_COMPACT_MODEL: "new" };
    expect((await resolved({ env: { ...synapse, ...ours } })).values).toMatchObject({
      ...fromSynapse,
      triggerTokens: 3000,
      model: "new",
    });
  });

  it("an empty variable sets nothing", async () => {
    expect(await originOf("model", { env: { ESPALIER_COMPACT_MODEL: "" } })).toMatchObject({
      origin: "default",
    });
  });

  it("accepts true and false, and shares", async () => {
    const env = { ESPALIER_COMPACT_AUTO_COMPACT: "false", ESPALIER_COMPACT_RESERVE_TOKENS: "0.25" };
    expect((await resolved({ env })).values).toMatchObject({ autoCompact: false, reserveTokens: 50_000 });
  });
});

describe("sizes", () => {
  it("may be shares of the window, and thresholds in percent", async () => {
    user({
      contextWindow: 100_000,
      reserveTokens: 0.1,
      keepRecentTokens: 0.2,
      offloadThreshold: 0.5,
      compactionThreshold: 0.6,
    });
    expect((await resolved()).values).toMatchObject({
      reserveTokens: 10_000,
      keepRecentTokens: 20_000,
      offloadThreshold: 50_000,
      compactionThreshold: 60,
    });
  });

  it("of a model apply only to it, and all others to every model", async () => {
    user({
      keepRecentTokens: 0.1,
      models: {
        "claude-large": { context_window: 1_000_000, reserveTokens: 800_000 },
        "other/claude-large": { contextWindow: 900_000 },
      },
    });
    expect((await resolved({ model: "anthropic/claude-large" })).values).toMatchObject({
      contextWindow: 1_000_000,
      reserveTokens: 800_000,
      keepRecentTokens: 100_000,
    });
    expect((await resolved({ model: "other/claude-large" })).values.contextWindow).toBe(900_000);
    expect((await resolved({ model: "claude-small" })).values).toMatchObject({
      contextWindow: 200_000,
      reserveTokens: 16_384,
      keepRecentTokens: 20_000,
    });
  });

  it("of a model have a lower priority than a higher layer's value for all models", async () => {
    user({ models: { m: { keepLast: 20 } } });
    project({ keepLast: 21 });
    await trusted();
    expect(await originOf("keepLast", { model: "m" })).toMatchObject({ value: 21, origin: "project" });
  });

  it("that a user wrote for a larger window are refused, with the model's name", async () => {
    user({ reserveTokens: 800_000, models: { "claude-272": { contextWindow: 272_000 } } });
    const { message } = await problem({ model: "anthropic/claude-272" });
    expect(message).toMatch(/reserveTokens is 800000.*claude-272 is 272000 tokens.*between 0 and 1/);
  });

  it("may be the whole window where they count as full, and not where they are a reserve", async () => {
    const contextWindow = 50_000;
    const full = await resolved({ flags: { contextWindow, maxContextTokens: contextWindow } });
    expect(full.values.maxContextTokens).toBe(contextWindow);
    for (const flags of [{ reserveTokens: contextWindow }, { maxContextTokens: contextWindow + 1 }])
      expect((await problem({ flags: { contextWindow, ...flags } })).message).toContain("below that size");
  });

  it("are always above 0 and below the window, or refused", async () => {
    const share = fc.double({ min: 0.001, max: 0.999, noNaN: true });
    const size = fc.oneof(fc.integer({ min: 1, max: 300_000 }), share);
    const keys = ["reserveTokens", "keepRecentTokens", "offloadThreshold"] as const;
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1_000, max: 250_000 }),
        fc.record(
          { reserveTokens: size, keepRecentTokens: size, offloadThreshold: size },
          { requiredKeys: [] },
        ),
        async (contextWindow, sizes) => {
          const written = Object.values(sizes);
          const flags = { ...sizes, contextWindow } as Partial<Settings>;
          const answer = await resolved({ flags, model: "the-model" }).catch(
            (error: unknown) => error as EspalierError,
          );
          if (answer instanceof EspalierError) {
            expect(written.some((value) => value >= contextWindow)).toBe(true);
            expect(answer.message).toContain("the-model");
            return;
          }
          for (const key of keys) {
            const value = answer.values[key] ?? 1;
            expect(value).toBeGreaterThan(0);
            expect(value).toBeLessThan(contextWindow);
          }
        },
      ),
      { numRuns: 100 },
    );
  });
});

it("the user's file counts as the user's even if the home is the current folder", async () => {
  const ownHome = join(cwd, ".espalier");
  project({ keepLast: 12, extensions: ["mine.ts"] });
  const { values, ignored } = await resolved({ home: ownHome });
  expect(values.extensions).toEqual([join(ownHome, "mine.ts")]);
  expect(ignored).toEqual([]);
  expect(await originOf("keepLast", { home: ownHome })).toMatchObject({ value: 12, origin: "user" });
});

/** A value for each setting that differs from its default; sizes of policies are one less. */
const VALUES: Settings = {
  ...Object.fromEntries(
    Object.entries(DEFAULT_SETTINGS).flatMap(([key, value]) =>
      SETTINGS[key as SettingsKey].policy ? [[key, value - 1]] : [],
    ),
  ),
  offloadThreshold: 9_000,
  policy: "sliding-window",
  autoCompact: false,
  contextWindow: 100_000,
  requestBytes: 1_000_000,
  reserveTokens: 1_000,
  keepRecentTokens: 1_000,
  summarizer: "anthropic",
  model: "a-model",
  fallback: true,
  rules: false,
  extensions: ["./mine.ts"],
  maxCost: 5,
  prices: { "provider/model": { input: 1, output: 5, cacheRead: 0.1, cacheWrite: 1.25 } },
};

describe("the settings of an untrusted project", () => {
  it("have no effect, and are listed with their possible effects", async () => {
    const file = project(VALUES);
    const before = await resolved();
    expect(before.values).toEqual(DEFAULT_SETTINGS);
    // Keys and addresses are the user's alone.
    const keys = SETTINGS_KEYS.filter((key) => !/(ApiKey|BaseUrl)$/.test(key));
    expect(before.leftOut).toEqual(keys.map((key) => ({ key, file, effect: SETTING_EFFECTS[key] })));
    expect(before.ignored).toEqual([expect.stringMatching(/settings\.json.*policy.*`espalier trust`/)]);
    await trusted();
    const after = await resolved();
    expect(after.values).toEqual({ ...VALUES, extensions: [join(cwd, ".espalier", "mine.ts")] });
    expect(after).toMatchObject({ leftOut: [], ignored: [] });
  });

  it("have the effects in the guide's table, key by key", async () => {
    const guide = readFileSync(new URL("../../../docs/guides/choose-a-policy.md", import.meta.url), "utf8");
    const named = new Map<string, SettingEffect>();
    for (const [, effect, cell = ""] of guide.matchAll(/^\| `(runs|sends|spends)` +\| ([^|]+) \|$/gm))
      for (const [, key] of cell.matchAll(/`(\w+)`/g)) named.set(key!, effect as SettingEffect);
    expect([...named.keys()].filter((key) => !SETTINGS_KEYS.some((one) => one === key))).toEqual([]);
    for (const key of SETTINGS_KEYS) {
      expect(named.get(key) ?? "spends", key).toBe(SETTING_EFFECTS[key]);
      project({ [key]: VALUES[key] });
      expect((await originOf(key))!.origin, key).toBe("default");
    }
  });

  it("have no effect for a model either, under any name", async () => {
    project({ models: { "a-model": { context_window: 1_000, summarizer: "anthropic" } } });
    const { values, leftOut } = await resolved({ model: "a-model" });
    expect(values).toEqual(DEFAULT_SETTINGS);
    expect(leftOut.map(({ key }) => key)).toEqual(["contextWindow", "summarizer"]);
  });

  it.each([
    ["a FIFO", (file: string) => void execFileSync("mkfifo", [file])],
    ["a link to a device", (file: string) => symlinkSync("/dev/zero", file)],
    ["a folder", (file: string) => mkdirSync(file)],
    [
      "a file of a gigabyte",
      (file: string) => {
        writeFileSync(file, "");
        truncateSync(file, 2 ** 30);
      },
    ],
    ["no JSON", (file: string) => writeFileSync(file, "{")],
    ["a key of underscores alone", (file: string) => writeFileSync(file, `{"${"_".repeat(250_000)}":1}`)],
  ])(
    "cause no harm if the file is %s; after trust, and for the user's own file, it is reported",
    async (_, make) => {
      make(join(cwd, ".espalier", "settings.json"));
      const { values, ignored } = await resolved();
      expect(values).toEqual(DEFAULT_SETTINGS);
      expect(ignored).toEqual([expect.stringContaining("espalier trust")]);
      make(join(home, "settings.json"));
      expect((await problem()).message).toContain(join(home, "settings.json"));
    },
  );

  it("may be a link to a file, like the user's", async () => {
    const elsewhere = write(home, "dotfile.json", { keepLast: 12 });
    symlinkSync(elsewhere, join(cwd, ".espalier", "settings.json"));
    symlinkSync(elsewhere, join(home, "settings.json"));
    await trusted();
    expect(await originOf("keepLast")).toMatchObject({ value: 12, origin: "project" });
    // What the link leads to counts, not the link.
    writeFileSync(elsewhere, JSON.stringify({ keepLast: 13 }));
    expect(await originOf("keepLast")).toMatchObject({ value: 13, origin: "user" });
  });
});

describe("a project that changed since it was trusted", () => {
  const extension = (name: string) => {
    mkdirSync(join(cwd, ".espalier", "extensions", "deep"), { recursive: true });
    return write(join(cwd, ".espalier", "extensions"), name, "export default () => {}");
  };

  it.each<[string, () => unknown, string]>([
    [
      "its settings",
      () => project({ keepLast: 13, extensions: ["../lib/own.ts"] }),
      ".espalier/settings.json",
    ],
    ["settings in the same folder", () => project("", "settings.toml"), ".espalier/settings.toml"],
    [
      "an extension",
      () => extension("own.ts") && write(cwd, ".espalier/extensions/own.ts", "2"),
      ".espalier/extensions/own.ts",
    ],
    [
      "a file that an extension imports",
      () => extension("deep/helper.ts"),
      ".espalier/extensions/deep/helper.ts",
    ],
    ["a module that the settings name", () => write(join(cwd, "lib"), "own.ts", "3"), "lib/own.ts"],
    ["a removed file", () => rmSync(join(cwd, "lib", "own.ts")), "lib/own.ts"],
  ])("by %s does not count, is named, and counts again once it is trusted", async (_, change, named) => {
    project({ keepLast: 12, extensions: ["../lib/own.ts"] });
    mkdirSync(join(cwd, "lib"));
    write(join(cwd, "lib"), "own.ts", "1");
    extension("own.ts");
    await trusted();
    expect(openTrust(home).look(cwd)).toEqual({ folder: cwd, state: "trusted", changes: [] });
    expect(await originOf("keepLast")).toMatchObject({ value: 12 });
    change();
    expect(openTrust(home).look(cwd)).toEqual({ folder: cwd, state: "changed", changes: [named] });
    const { values, ignored } = await resolved();
    expect(values).toEqual(DEFAULT_SETTINGS);
    expect(ignored).toEqual([expect.stringMatching(/has changed since it was trusted .*`espalier trust /)]);
    expect(ignored[0]).toContain(named);
  });

  it("needs a new answer, and its new state applies after yes", async () => {
    project({ keepLast: 12 });
    await trusted();
    project({ keepLast: 13 });
    const asked: string[][] = [];
    const answering = (answer: boolean) => ({
      confirmTrust: ({ changes }: { changes: string[] }) => {
        asked.push(changes);
        return answer;
      },
    });
    expect(await originOf("keepLast", answering(false))).toMatchObject({ origin: "default" });
    expect(await originOf("keepLast", answering(true))).toMatchObject({ value: 13 });
    expect(await originOf("keepLast")).toMatchObject({ value: 13 });
    expect(asked).toEqual([[".espalier/settings.json"], [".espalier/settings.json"]]);
  });

  it("is never larger than the comparable size", async () => {
    await trusted();
    extension("own.ts");
    const file = join(cwd, ".espalier", "extensions", "large.bin");
    writeFileSync(file, "");
    truncateSync(file, 2 ** 27);
    expect(openTrust(home).look(cwd)).toMatchObject({
      state: "changed",
      changes: [expect.stringContaining("64 MiB")],
    });
    await expect(trusted()).rejects.toMatchObject({ code: "bad-input" });
  });
});

describe("settings that a project can set", () => {
  it.each(["openaiApiKey", "openai_base_url", "anthropicBaseUrl"])(
    "never include %s, which a user can set",
    async (key) => {
      const value = key.endsWith("Key") ? "a-key" : "http://127.0.0.1:1/v1";
      user({ [key]: value });
      expect(Object.values((await resolved()).values)).toContain(value);
      user({});
      await trusted();
      project({ [key]: value });
      expect((await problem({ confirmTrust: () => true })).message).toContain("from the environment alone");
    },
  );

  it("include the user's modules without a question", async () => {
    user({ extensions: ["mine.ts", "/else/where.ts"] });
    expect((await resolved()).values.extensions).toEqual([join(home, "mine.ts"), "/else/where.ts"]);
  });

  it.each([
    "apiKey",
    "api_key",
    "ANTHROPIC_API_KEY",
    "baseURL",
    "base_url",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_AUTH_TOKEN",
  ])("never include %s, trusted or not", async (key) => {
    await trusted();
    project({ [key]: "sk-ant-secret-value" });
    const { message } = await problem({ confirmTrust: () => true });
    expect(message).toContain("from the environment alone");
    expect(message).not.toContain("sk-ant-secret-value");
  });
});

it("resolving changes nothing", async () => {
  const file = user({ keepLast: 11 });
  const before = readFileSync(file);
  await resolved();
  expect(readFileSync(file)).toEqual(before);
});

it("no two policies have a setting of the same name", () => {
  const keys = Object.values(POLICIES).flatMap(({ settings }) => Object.keys(settings));
  expect(new Set(keys).size).toBe(keys.length);
});

it("a session uses the resolved settings", () => {
  const { policy, policySettings, compaction } = sessionOptionsOf({
    ...DEFAULT_SETTINGS,
    policy: "offload",
    keepLast: 12,
  });
  expect(policy).toBe("offload");
  expect(policySettings).toMatchObject({ keepLast: 12, triggerTokens: 15_000 });
  expect(compaction).toEqual({
    autoCompact: true,
    contextWindow: 200_000,
    requestBytes: 32_000_000,
    reserveTokens: 16_384,
    keepRecentTokens: 20_000,
  });
});

it("the JSON Schema has exactly the known keys, with their allowed values", async () => {
  const schema = (await settingsJsonSchema()) as {
    properties: Record<string, object>;
    additionalProperties: boolean;
  };
  expect(Object.keys(schema.properties).sort()).toEqual([...SETTINGS_KEYS, "models"].sort());
  expect(schema.additionalProperties).toBe(false);
  expect(schema.properties["retryCount"]).toMatchObject({ type: "integer", minimum: 1, maximum: 10 });
});
