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
import { WINDOW } from "./shared.ts";

/** Access to a provider by name. */
export interface ProviderAccess {
  /** Keys and addresses. Default: `ANTHROPIC_API_KEY`, `ANTHROPIC_BASE_URL`, `OPENAI_API_KEY`, `OPENAI_BASE_URL`. */
  settings?: Pick<Settings, "anthropicApiKey" | "anthropicBaseUrl" | "openaiApiKey" | "openaiBaseUrl">;
  /** Window in tokens. Default: that of the model. */
  contextWindow?: number | undefined;
}

/**
 * Names of one API: environment variables and settings of its key and address, and the default address of its SDK.
 */
const CLAUDE = {
  who: "Claude",
  variables: { key: "ANTHROPIC_API_KEY", address: "ANTHROPIC_BASE_URL" },
  settings: { key: "anthropicApiKey", address: "anthropicBaseUrl" },
  address: "https://api.anthropic.com",
} as const;
const OPENAI = {
  who: "OpenAI",
  variables: { key: "OPENAI_API_KEY", address: "OPENAI_BASE_URL" },
  settings: { key: "openaiApiKey", address: "openaiBaseUrl" },
  address: "https://api.openai.com/v1",
} as const;
const PROVIDERS = { anthropic: CLAUDE, openai: OPENAI, "openai-responses": OPENAI } as const;

function parsedName(name: string): { provider: keyof typeof PROVIDERS; model: string } | undefined {
  const [provider = "", model = ""] = name.split(/:(.*)/s);
  return Object.hasOwn(PROVIDERS, provider)
    ? { provider: provider as keyof typeof PROVIDERS, model }
    : undefined;
}

/** Returns the named provider, its model and its access. A name without a known provider is a Claude model. */
function accessTo(name: string, { settings = {} }: ProviderAccess) {
  const { provider, model } = parsedName(name) ?? { provider: "anthropic" as const, model: name };
  const api = PROVIDERS[provider];
  const apiKey = settings[api.settings.key] ?? process.env[api.variables.key];
  const baseURL = settings[api.settings.address] ?? process.env[api.variables.address];
  const access = { ...(apiKey ? { apiKey } : {}), ...(baseURL ? { baseURL } : {}) };
  // Servers on the same machine need no key.
  const isMissing = !apiKey && (api === CLAUDE || !baseURL);
  return { provider, model, api, access, missing: isMissing ? api.variables.key : undefined };
}

/** Returns the address of a provider or a Claude model, and the variable that sets another address. */
export function addressOf(name: string, given: ProviderAccess = {}): { url: string; variable: string } {
  const { api, access } = accessTo(name, given);
  return { url: access.baseURL ?? api.address, variable: api.variables.address };
}

/** Returns the variable for the missing key of a named provider or Claude model; undefined when no key is missing. */
export const missingKey = (name: string, given: ProviderAccess = {}): string | undefined =>
  accessTo(name, given).missing;

/**
 * Returns the provider that a text names: `anthropic:MODEL`, `openai:MODEL` (Chat Completions, at any address),
 * `openai-responses:MODEL`, or the name of a Claude model alone.
 *
 * @throws EspalierError `bad-input` for OpenAI without a model
 */
export async function providerNamed(name: string, given: ProviderAccess = {}): Promise<Provider> {
  const { provider, model, access } = accessTo(name, given);
  const window = given.contextWindow === undefined ? {} : { contextWindow: given.contextWindow };
  if (provider === "anthropic") {
    const { anthropic } = await import("./anthropic.ts");
    return anthropic(anthropicClient(access), { model: model || DEFAULT_ANTHROPIC_MODEL, ...window });
  }
  refuseWithoutModel(provider, model);
  const { openai, openaiResponses } = await import("./openai.ts");
  const options = { model, isCompatible: access.baseURL !== undefined, ...window };
  return (provider === "openai" ? openai : openaiResponses)(openaiClient(access), options);
}

function refuseWithoutModel(provider: string, model: string): void {
  if (model !== "") return;
  throw new EspalierError("bad-input", `Name a model too: ${provider}:MODEL, for example ${provider}:gpt-5.`);
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
 * `openai-responses:MODEL`. Without a text: Claude when its key is set (`anthropicApiKey` or `ANTHROPIC_API_KEY`), else
 * the extractive one.
 *
 * @throws EspalierError `bad-input` for any other text, for a provider without a key, and for OpenAI without a model
 */
export function resolveSummarizer(name?: string, given: ProviderAccess = {}): Summarizer {
  if (name === "extractive" || (name === undefined && missingKey("anthropic", given)))
    return extractiveSummarizer();
  const named = name ?? "anthropic";
  if (!parsedName(named))
    throw new EspalierError(
      "bad-input",
      `There is no summarizer ${redactText(JSON.stringify(name))}; choose extractive, anthropic, anthropic:MODEL or openai:MODEL.`,
    );
  const { provider, model, api, access, missing } = accessTo(named, given);
  if (missing)
    throw new EspalierError(
      "bad-input",
      `Summaries by ${api.who} need a key: set ${missing}, or pass --summarizer extractive.`,
    );
  if (provider === "anthropic") return anthropicSummarizer({ ...access, ...(model ? { model } : {}) });
  refuseWithoutModel(provider, model);
  // The first request loads the provider.
  let loading: Promise<Provider> | undefined;
  return {
    name: provider,
    model: { provider: "openai", modelId: model },
    contextWindow: WINDOW,
    maxOutputTokens: WINDOW,
    async summarize(request) {
      loading ??= providerNamed(named, given);
      return (await loading).summarizer!.summarize(request);
    },
  };
}
