// Providers and summarizers by name, for settings and command lines. Their SDKs are loaded with the first request.
import { EspalierError } from "@espalier/jsonl-stream";
import { redactText } from "@espalier/session-tree";
import {
  anthropicClient,
  anthropicSummarizer,
  DEFAULT_ANTHROPIC_MODEL,
  extractiveSummarizer,
  fetchWithShortWaits,
  type Summarizer,
} from "@espalier/summarizer";
import type OpenAI from "openai";
import type { Settings } from "../settings/settings.ts";
import type { Provider } from "../turn/provider.ts";

/** Access to a provider by name. */
export interface ProviderAccess {
  /** Keys and addresses. Default: `ANTHROPIC_API_KEY`, `ANTHROPIC_BASE_URL`, `OPENAI_API_KEY`, `OPENAI_BASE_URL`. */
  settings?: Pick<Settings, "anthropicApiKey" | "anthropicBaseUrl" | "openaiApiKey" | "openaiBaseUrl">;
  /** Window in tokens. Default: that of the model. */
  contextWindow?: number | undefined;
  /** Default: the process's. */
  environment?: NodeJS.ProcessEnv;
}

/** Named providers, each with the variables of its key and its address. */
const VARIABLES = {
  anthropic: ["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"],
  openai: ["OPENAI_API_KEY", "OPENAI_BASE_URL"],
  "openai-responses": ["OPENAI_API_KEY", "OPENAI_BASE_URL"],
} as const;

type ProviderName = keyof typeof VARIABLES;

const isProviderName = (name: string): name is ProviderName => Object.hasOwn(VARIABLES, name);

/** Returns the provider and the model that a text names; undefined for any other text. */
function parsedName(name: string): { provider: ProviderName; model: string | undefined } | undefined {
  const [provider = "", model] = name.split(/:(.*)/s);
  if (!isProviderName(provider)) return undefined;
  return { provider, model: model || undefined };
}

function accessOf(provider: ProviderName, { environment = process.env, settings = {} }: ProviderAccess) {
  const [key, address] = VARIABLES[provider];
  const isOpenai = provider !== "anthropic";
  const baseURL = (isOpenai ? settings.openaiBaseUrl : settings.anthropicBaseUrl) ?? environment[address];
  const apiKey = (isOpenai ? settings.openaiApiKey : settings.anthropicApiKey) ?? environment[key];
  return { ...(apiKey ? { apiKey } : {}), ...(baseURL ? { baseURL } : {}) };
}

/** Addresses that the SDKs use by default. */
const DEFAULT_ADDRESSES: Readonly<Record<ProviderName, string>> = {
  anthropic: "https://api.anthropic.com",
  openai: "https://api.openai.com/v1",
  "openai-responses": "https://api.openai.com/v1",
};

/** Returns the address of a provider or a Claude model, and the variable that sets another address. */
export function addressOf(name: string, access: ProviderAccess = {}): { url: string; variable: string } {
  const { provider } = parsedName(name) ?? { provider: "anthropic" as const };
  const { baseURL } = accessOf(provider, access);
  return { url: baseURL ?? DEFAULT_ADDRESSES[provider], variable: VARIABLES[provider][1] };
}

/** Returns the missing variable of a provider or a Claude model; undefined when it can be used. */
export function missingKey(name: string, access: ProviderAccess = {}): string | undefined {
  const { provider } = parsedName(name) ?? { provider: "anthropic" as const };
  const { apiKey, baseURL } = accessOf(provider, access);
  // Servers on the same machine need no key.
  return apiKey || (provider !== "anthropic" && baseURL) ? undefined : VARIABLES[provider][0];
}

/**
 * Returns the provider that a text names: `anthropic:MODEL`, `openai:MODEL` (Chat Completions, at any address),
 * `openai-responses:MODEL`, or the name of a Claude model alone.
 *
 * @throws EspalierError `bad-input` for OpenAI without a model
 */
export async function providerNamed(name: string, access: ProviderAccess = {}): Promise<Provider> {
  const { provider, model } = parsedName(name) ?? { provider: "anthropic" as const, model: name };
  const { contextWindow } = access;
  const window = contextWindow === undefined ? {} : { contextWindow };
  const reached = accessOf(provider, access);
  if (provider === "anthropic") {
    const { anthropic } = await import("./anthropic.ts");
    return anthropic(anthropicClient(reached), { model: model ?? DEFAULT_ANTHROPIC_MODEL, ...window });
  }
  if (model === undefined)
    throw new EspalierError(
      "bad-input",
      `Name a model too: ${provider}:MODEL, for example ${provider}:gpt-5.`,
    );
  const { openai, openaiResponses } = await import("./openai.ts");
  const client = openaiClient(reached);
  const options = { model, isCompatible: reached.baseURL !== undefined, ...window };
  return provider === "openai" ? openai(client, options) : openaiResponses(client, options);
}

/** Makes a client when it is first needed. Servers on the same machine need no key, but the SDK requires one. */
function openaiClient({ apiKey, baseURL }: { apiKey?: string; baseURL?: string }): () => Promise<OpenAI> {
  let loading: Promise<OpenAI> | undefined;
  const load = async () => {
    const { default: Client } = await import("openai").catch((cause: unknown) => {
      throw new EspalierError("bad-input", "OpenAI needs the package openai: npm install openai", { cause });
    });
    return new Client({
      apiKey: apiKey ?? (baseURL ? "none" : undefined),
      ...(baseURL ? { baseURL } : {}),
      fetch: fetchWithShortWaits,
    });
  };
  return () => {
    loading ??= load();
    return loading;
  };
}

/**
 * Returns the summarizer that a text names: `extractive`, `anthropic`, `anthropic:MODEL`, `openai:MODEL`,
 * `openai-responses:MODEL`. Without a text: Claude when `ANTHROPIC_API_KEY` is set (at `ANTHROPIC_BASE_URL`, if set),
 * else the extractive one.
 *
 * @throws EspalierError `bad-input` for any other text, and for a provider without a key
 */
export function resolveSummarizer(name?: string, access: ProviderAccess = {}): Summarizer {
  if (name === "extractive" || (name === undefined && missingKey("anthropic", access)))
    return extractiveSummarizer();
  const named = parsedName(name ?? "anthropic");
  if (!named)
    throw new EspalierError(
      "bad-input",
      `There is no summarizer ${redactText(JSON.stringify(name))}; choose extractive, anthropic, anthropic:MODEL or openai:MODEL.`,
    );
  const { provider, model } = named;
  const missing = missingKey(provider, access);
  if (missing) {
    const who = provider === "anthropic" ? "Claude" : "OpenAI";
    throw new EspalierError(
      "bad-input",
      `Summaries by ${who} need a key: set ${missing}, or pass --summarizer extractive.`,
    );
  }
  if (provider === "anthropic")
    return anthropicSummarizer({ ...accessOf(provider, access), ...(model ? { model } : {}) });
  if (model === undefined)
    throw new EspalierError(
      "bad-input",
      `Name a model too: ${provider}:MODEL, for example ${provider}:gpt-5.`,
    );
  return lazySummarizer(provider, model, () => providerNamed(`${provider}:${model}`, access));
}

/** Makes a summarizer whose provider is loaded with its first request. */
function lazySummarizer(name: string, modelId: string, load: () => Promise<Provider>): Summarizer {
  let loading: Promise<Provider> | undefined;
  return {
    name,
    model: { provider: "openai", modelId },
    contextWindow: OPENAI_WINDOW,
    maxOutputTokens: OPENAI_WINDOW,
    async summarize(request) {
      loading ??= load();
      return (await loading).summarizer!.summarize(request);
    },
  };
}

/** Assumed window of a model of this API, in tokens; see `OpenaiOptions`. */
const OPENAI_WINDOW = 128_000;
