// Code that the adapters share for their hosts, the SDKs above them: versions, ids of sessions, contents of messages.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { isRecord, isSessionId, parsedJson } from "@espalier/session-tree";
import { EspalierError, type PoolOptions, type StoredMessage, type Usage } from "../index.ts";
import { fitsLine } from "./stored-value.ts";

/**
 * Refuses a host in a version that the adapter's tests were not run with. A host that is not installed beside this package
 * (a bundle, another package name) is not checked.
 *
 * @param oldest first tested version
 * @param next first version that is not tested
 * @throws EspalierError `unsuitable`
 */
export function refuseOtherVersions(host: string, oldest: string, next: string): void {
  const version = versionOf(host);
  if (version === undefined || (compare(version, oldest) >= 0 && compare(version, next) < 0)) return;
  throw new EspalierError(
    "unsuitable",
    `${host} ${version} is not a version that this adapter was tested with; npm install "${host}@>=${oldest} <${next}".`,
  );
}

function versionOf(host: string): string | undefined {
  for (const folder of createRequire(import.meta.url).resolve.paths(host) ?? [])
    try {
      const { version } = JSON.parse(readFileSync(join(folder, host, "package.json"), "utf8")) as Fields;
      if (typeof version === "string") return version;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code !== "ENOENT" && code !== "ENOTDIR") throw error;
    }
  return undefined;
}

/** Compares two versions by their numbers; a suffix (`-beta.1`) is ignored. */
function compare(a: string, b: string): number {
  const numbers = (version: string) => version.split(/[-+]/)[0]!.split(".").map(Number);
  const [left, right] = [numbers(a), numbers(b)];
  const at = left.findIndex((number, place) => number !== right[place]);
  return at < 0 ? 0 : left[at]! - (right[at] ?? 0);
}

/**
 * Returns the id that a host gave, if it can be the id of a session.
 *
 * @param name of the id in the host's API, for the message
 * @throws EspalierError `bad-input`
 */
export function sessionIdOf(name: string, given: unknown): string {
  if (typeof given === "string" && isSessionId(given)) return given;
  const shown = typeof given === "string" ? JSON.stringify(given.slice(0, 40)) : String(given);
  throw new EspalierError(
    "bad-input",
    `The ${name} ${shown} cannot name a session; give 1 to 128 letters, digits, ".", "_" and "-", for example a UUID.`,
  );
}

/** Returns the options that choose the store of a pool's sessions: `store` and `home`, if they are given. */
export function storeOf({ store, home }: PoolOptions): Pick<PoolOptions, "store" | "home"> {
  return { ...(store === undefined ? {} : { store }), ...(home === undefined ? {} : { home }) };
}

/** Returns the value of a promise; undefined if it fails with `not-found`. */
export async function ifFound<Result>(call: Promise<Result>): Promise<Result | undefined> {
  try {
    return await call;
  } catch (error) {
    if (error instanceof EspalierError && error.code === "not-found") return undefined;
    throw error;
  }
}

export type Fields = Record<string, unknown>;

/** The SHA-256 of a text in hexadecimal, or its first `length` digits. */
export const digestOf = (text: string, length?: number): string =>
  createHash("sha256").update(text).digest("hex").slice(0, length);

/** Fields in the order of their names, so that equal objects have equal JSON. */
export const sortedFields = (fields: Fields): Fields =>
  Object.fromEntries(Object.entries(fields).sort(([a], [b]) => (a < b ? -1 : 1)));

/** Blocks of a user's message or of a result. */
export type Blocks = Exclude<Extract<StoredMessage, { role: "user" }>["content"], string>;

type Answer = Extract<StoredMessage, { role: "assistant" }>;

/**
 * Makes the message of an answer of a host's model. An answer without the name of its model gets `unknown`; its
 * `stopReason` is `toolUse` if it has a call, else `stop`.
 */
export function answerOf(
  content: Answer["content"],
  { provider, model, usage }: { provider: string; model: unknown; usage?: Usage | undefined },
  timestamp: number,
): Answer {
  return {
    role: "assistant",
    content,
    provider,
    model: typeof model === "string" && model !== "" ? model : "unknown",
    ...(usage ? { usage } : {}),
    stopReason: content.some(({ type }) => type === "toolCall") ? "toolUse" : "stop",
    timestamp,
  };
}

/**
 * Parses the arguments of a call. A text that is not the JSON of an object, or whose object no line of a session can
 * hold, becomes `{ input: text }`.
 */
export function argumentsOf(text: string): Fields {
  const parsed = parsedJson(text);
  return isRecord(parsed) && fitsLine(parsed) ? parsed : { input: text };
}

/** Members of a block that hold text. */
const TEXTS = ["text", "refusal", "transcript", "stdout", "stderr"];

/**
 * Converts the content of a host's message to blocks: its texts, and its images if it has their bytes. Any other block
 * becomes a text with its type, and with its file name and web address if it has them.
 */
export function blocksOf(content: unknown): Blocks {
  if (content === undefined || content === null || content === "") return [];
  if (Array.isArray(content)) return content.flatMap(blocksOf);
  if (!isRecord(content)) return [{ type: "text", text: String(content) }];
  const texts = TEXTS.map((name) => content[name]).filter((text) => typeof text === "string");
  if (texts.length > 0) return blocksOf(texts.filter(Boolean).join("\n"));
  const address = addressOf(content["image"] ?? content["image_url"] ?? content["url"]);
  const picture = pictureOf(content, address);
  if (picture) return [picture];
  const named = [content["type"] ?? "data", content["filename"], /^https?:/.test(address) ? address : ""];
  return blocksOf(`[${named.filter((one) => typeof one === "string" && one !== "").join(" ")}]`);
}

/** Returns the texts of a content, joined by newlines. An image becomes `[image]`. */
export const textOf = (content: unknown): string =>
  blocksOf(content)
    .map((block) => (block.type === "text" ? block.text : "[image]"))
    .join("\n");

/**
 * Returns an address, or the `url` of an object; empty for other values, and for addresses of 200 characters or more
 * that do not hold the bytes.
 */
function addressOf(value: unknown): string {
  const address = isRecord(value) ? value["url"] : value;
  return typeof address === "string" && (address.length < 200 || address.startsWith("data:")) ? address : "";
}

function pictureOf(block: Fields, address: string): Blocks[number] | undefined {
  const inner = [block["image"], block["source"], block].find((one) => isRecord(one) && "data" in one);
  const { data, ...fields } = (inner ?? {}) as Fields;
  const url = address || (typeof data === "string" ? data : "");
  const [beginning, inAddress] = DATA_URL.exec(url) ?? [];
  if (inAddress !== undefined && url !== beginning)
    return { type: "image", mimeType: inAddress, data: url.slice(beginning!.length) };
  const mimeType = fields["mediaType"] ?? fields["mimeType"] ?? fields["mime_type"] ?? fields["media_type"];
  if (typeof mimeType !== "string" || !mimeType.startsWith("image/")) return undefined;
  const base64 = data instanceof Uint8Array ? Buffer.from(data).toString("base64") : data;
  return typeof base64 === "string" && base64 !== "" ? { type: "image", mimeType, data: base64 } : undefined;
}

/** The beginning of an address that holds the bytes of an image, in base64. */
const DATA_URL = /^data:(image\/[\w.+-]+);base64,/;
