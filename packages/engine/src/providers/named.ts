// Providers and summarizers by name, for settings and command lines. Their SDKs are loaded with the first request.
import { EspalierError } from "@espalier/jsonl-stream";
import { redactText } from "@espalier/session-tree";
import {
  anthropicClient,
  DEFAULT_ANTHROPIC_MODEL,
  extractiveSummarizer,
  fetchWithShortWaits,
  type Summarizer,
} from "@espalier/summarizer";
import type OpenAI from "openai";
import type { Provider } from "../turn/provider.ts";
import { anthropic } from "./anthropic.ts";
import { OPENAI_ADDRESS, openai, openaiResponses } from "./openai.ts";

/** Key and address of a provider, as far as the user gave them. */
type Access = Partial<Record<"apiKey" | "baseURL", string>>;

/** A setting in the user's own file, the variable that is its default, and its description for `espalier config`. */
type AccessSource = Readonly<Record<"setting" | "variable" | "about", string>>;

interface NamedProvider {
  /** Author of its answers, as messages name it. */
  who: string;
  key: AccessSource;
  address: AccessSource;
  /** Default address of its SDK. */
  usual: string;
  /** Default model. Absent: a name needs a model. */
  model?: string;
  /** True if other servers have the same API. Those on the same machine need no key: an address is enough. */
  isShared?: true;
  /** Makers of its provider values, by the words before `:MODEL`, which begin with its name. */
  apis: Readonly<
    Record<string, (access: Access, options: { model: string; contextWindow?: number }) => Provider>
  >;
}

/** Providers that have a name, by their name in entries. Their settings, and the names of summarizers, follow from it. */
export const PROVIDERS = {
  anthropic: {
    who: "Claude",
    key: { setting: "anthropicApiKey", variable: "ANTHROPIC_API_KEY", about: "key of Claude" },
    address: { setting: "anthropicBaseUrl", variable: "ANTHROPIC_BASE_URL", about: "address of Claude" },
    usual: "https://api.anthropic.com",
    model: DEFAULT_ANTHROPIC_MODEL,
    apis: { anthropic: (access, options) => anthropic(anthropicClient(access), options) },
  },
  openai: {
    who: "OpenAI",
    key: { setting: "openaiApiKey", variable: "OPENAI_API_KEY", about: "key of that server" },
    address: {
      setting: "openaiBaseUrl",
      variable: "OPENAI_BASE_URL",
      about: "address of a server with OpenAI's API",
    },
    usual: "https://api.openai.com/v1",
    isShared: true,
    apis: {
      openai: (access, options) =>
        openai(openaiClient(access), {
          ...options,
          isCompatible: !OPENAI_ADDRESS.test(access.baseURL ?? "openai.com"),
        }),
      "openai-responses": (access, options) => openaiResponses(openaiClient(access), options),
    },
  },
} as const satisfies Readonly<Record<string, NamedProvider>>;

/** Setting that has a key or an address. */
export type AccessSetting = (typeof PROVIDERS)[keyof typeof PROVIDERS]["key" | "address"]["setting"];

const ROWS: readonly NamedProvider[] = Object.values(PROVIDERS);

const PATTERNS = ROWS.flatMap(({ apis, model }) =>
  Object.keys(apis).map((word) => word + (model ? "(:.+)?" : ":.+")),
);

/** Pattern of the names of summarizers. */
export const SUMMARIZER_NAME = new RegExp(`^(extractive|${PATTERNS.join("|")})$`, "s");

/** Access to a provider by name. */
export interface ProviderAccess {
  /**
   * Keys and addresses, by default the environment variables of the provider; and `model`, as `provider/id` or a Claude
   * model, which the summarizer `anthropic` asks.
   */
  settings?: Readonly<Partial<Record<AccessSetting | "model", string>>>;
  /** Window in tokens. Default: that of the model. */
  contextWindow?: number | undefined;
}

function parsedName(name: string) {
  const [word = "", model = ""] = name.split(/:(.*)/s);
  const row = ROWS.find(({ apis }) => Object.hasOwn(apis, word));
  return row && { word, row, model: model || row.model };
}

/** Returns the named provider, its model and its access. A name without a known provider is a Claude model. */
function accessTo(name: string, settings: Readonly<Record<string, string | undefined>> = {}) {
  const named = parsedName(name) ?? parsedName(`anthropic:${name}`)!;
  const { key, address, isShared } = named.row;
  const apiKey = settings[key.setting] ?? process.env[key.variable];
  const baseURL = settings[address.setting] ?? process.env[address.variable];
  const access: Access = { ...(apiKey ? { apiKey } : {}), ...(baseURL ? { baseURL } : {}) };
  return { ...named, access, missing: apiKey || (isShared && baseURL) ? undefined : key };
}

/** Returns the address of a provider or a Claude model, and the variable that sets another address. */
export function addressOf(name: string, given: ProviderAccess = {}): { url: string; variable: string } {
  const { row, access } = accessTo(name, given.settings);
  return { url: access.baseURL ?? row.usual, variable: row.address.variable };
}

/** Returns the setting and the variable of a missing key of a named provider or Claude model; undefined with a key. */
export const missingKey = (name: string, given: ProviderAccess = {}): AccessSource | undefined =>
  accessTo(name, given.settings).missing;

/** Returns the name of a model `provider/id` of settings or a session; undefined when its provider has no name. */
export function nameOfModel(model = ""): string | undefined {
  const [provider = "", id] = model.split(/\/(.*)/s);
  return id && Object.hasOwn(PROVIDERS, provider) ? `${provider}:${id}` : undefined;
}

/**
 * Returns the provider that a text names: `anthropic:MODEL`, `openai:MODEL` (Chat Completions, at any address),
 * `openai-responses:MODEL`, or the name of a Claude model alone.
 *
 * @throws EspalierError `bad-input` for OpenAI without a model
 */
export function providerNamed(name: string, given: ProviderAccess = {}): Provider {
  const { word, row, model, access } = accessTo(name, given.settings);
  if (model === undefined)
    throw new EspalierError("bad-input", `Name a model too: ${word}:MODEL, for example ${word}:gpt-5.`);
  return row.apis[word]!(access, {
    model,
    ...(given.contextWindow ? { contextWindow: given.contextWindow } : {}),
  });
}

/** Makes a client when it is first needed. Servers on the same machine need no key, but the SDK requires one. */
function openaiClient({ apiKey, baseURL }: Access): () => Promise<OpenAI> {
  let loading: Promise<OpenAI> | undefined;
  const load = async () => {
    const { default: Client } = await import("openai").catch((cause: unknown) => {
      throw new EspalierError("bad-input", "OpenAI needs the package openai: npm install openai", { cause });
    });
    return new Client({ apiKey: apiKey ?? (baseURL && "none"), baseURL, fetch: fetchWithShortWaits });
  };
  return () => (loading ??= load());
}

/**
 * Returns the summarizer that a text names: `extractive`, `anthropic`, `anthropic:MODEL`, `openai:MODEL`,
 * `openai-responses:MODEL`. Without a text: Claude when its key is set (`anthropicApiKey` or `ANTHROPIC_API_KEY`), else
 * the extractive one.
 *
 * @throws EspalierError `bad-input` for any other text, for a provider without a key, and for OpenAI without a model
 */
export function resolveSummarizer(name?: string, given: ProviderAccess = {}): Summarizer {
  if (name === "extractive" || (name === undefined && missingKey("anthropic", given)))
    return extractiveSummarizer();
  const { model } = given.settings ?? {};
  const isDefault = name === undefined || name === "anthropic";
  const asked = isDefault ? (nameOfModel(model) ?? `anthropic:${model ?? ""}`) : name;
  const named = parsedName(asked);
  if (!named)
    throw new EspalierError(
      "bad-input",
      `There is no summarizer ${redactText(JSON.stringify(name))}; choose extractive, anthropic, anthropic:MODEL or openai:MODEL.`,
    );
  const missing = missingKey(asked, given);
  if (missing)
    throw new EspalierError(
      "bad-input",
      `Summaries by ${named.row.who} need a key: set ${missing.variable}, or pass --summarizer extractive.`,
    );
  return { ...providerNamed(asked, given).summarizer!, name: named.word };
}
