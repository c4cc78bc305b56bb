import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { constants, gzipSync } from "node:zlib";
import type { Session } from "@espalier/engine";
import { type ExportOptions, exportSession } from "@espalier/interop";
import { ViewerError } from "../server/viewer-error.ts";

export interface HtmlOptions extends Pick<ExportOptions, "at" | "redact"> {
  /** File of the built page. */
  page: string;
}

/** Bytes that are encoded at once. A multiple of three, so that the parts of the base64 text can be joined. */
const PART = 3 << 16;

/**
 * Exports a session as one HTML file that needs no server and no network: the viewer's page with the compressed lines
 * of the session inside. The same log gives the same file, whether the session is running or was opened again. The
 * generator returns the number of entries.
 *
 * @throws ViewerError `page`; EspalierError `unknown-entry`
 */
export async function htmlOf(
  session: Session,
  { page, at, redact }: HtmlOptions,
): Promise<Generator<string, number>> {
  await session.load();
  const [before, after] = await standalonePage(page);
  return htmlPieces(session, before, exportSession(session, { format: "jsonl", at, redact }), after);
}

function* htmlPieces(
  { header, tree }: Pick<Session, "header" | "tree">,
  before: string,
  lines: Generator<string, number>,
  after: string,
): Generator<string, number> {
  const chunks: Buffer[] = [];
  let next = lines.next();
  for (; !next.done; next = lines.next()) chunks.push(Buffer.from(next.value));
  const packed = gzipSync(Buffer.concat(chunks), { level: constants.Z_BEST_COMPRESSION });
  // The operating system is not part of the session.
  packed[OPERATING_SYSTEM] = UNKNOWN_SYSTEM;
  yield `${before}<script ${sessionAttributes(header?.id ?? "", tree.length - next.value)}>`;
  for (let at = 0; at < packed.length; at += PART) yield packed.toString("base64", at, at + PART);
  yield `</script>${after}`;
  return next.value;
}

/**
 * Returns the attributes of the script that holds the lines of a session.
 *
 * @param leftOut number of entries of the session that are not in the lines
 */
function sessionAttributes(id: string, leftOut: number): string {
  const note = `data-of="${encodeURIComponent(id.toWellFormed())}" data-left-out="${leftOut}"`;
  return `type="application/octet-stream" id="session"${leftOut > 0 ? ` ${note}` : ""}`;
}

/**
 * RFC 1952, section 2.3: the byte of a gzip header that names the operating system, and its value for an unknown one.
 */
const OPERATING_SYSTEM = 9;
const UNKNOWN_SYSTEM = 255;

/** Marks the place of a session in the page, and of the page's policy when no server sends one. */
const DATA_PLACE = "<!--session-->";
const POLICY_PLACE = "<!--policy-->";

/**
 * Returns the page as the server sends it. Attributes tell the page that it has a server, and whether the server may
 * write.
 */
export async function servedPage(file: string, write: boolean): Promise<{ html: string; policy: string }> {
  const html = await readPage(file);
  const served = `<html data-served="${write ? "write" : "read"}"`;
  return {
    html: html.replace(POLICY_PLACE, "").replace("<html", served),
    policy: `${policyOf(html, "'self'")}; frame-ancestors 'none'`,
  };
}

/** Returns the page as a self-contained file, in two parts: before the session and after it. */
async function standalonePage(file: string): Promise<[string, string]> {
  const html = await readPage(file);
  const policy = `<meta http-equiv="Content-Security-Policy" content="${policyOf(html, "'none'")}">`;
  const [before = "", after = ""] = html.replace(POLICY_PLACE, policy).split(DATA_PLACE);
  return [before, after];
}

/**
 * Content policy: only the page's own script and style, by their digests, and only pictures inside the session. Text
 * becomes markup only through the sanitiser.
 */
function policyOf(html: string, connect: string): string {
  return [
    "default-src 'none'",
    `script-src ${digestsOf(html, "script")}`,
    `style-src ${digestsOf(html, "style")}`,
    "img-src data:",
    `connect-src ${connect}`,
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types dompurify",
  ].join("; ");
}

function digestsOf(html: string, tag: string): string {
  const found = [...html.matchAll(new RegExp(`<${tag}(?: type="module")?>([\\s\\S]*?)</${tag}>`, "g"))];
  return found
    .map(([, text = ""]) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`)
    .join(" ");
}

async function readPage(file: string): Promise<string> {
  try {
    return await readFile(file, "utf8");
  } catch (cause) {
    throw new ViewerError(
      "page",
      `The viewer's page is not at ${file}; build it with \`npm run -s --prefix apps/viewer build\`.`,
      {
        cause,
      },
    );
  }
}
