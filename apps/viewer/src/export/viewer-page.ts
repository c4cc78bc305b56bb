import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { ViewerError } from "../server/viewer-error.ts";

/** Where a session goes that travels with the page, and its policy when no server sends one. */
const DATA_PLACE = "<!--session-->";
const POLICY_PLACE = "<!--policy-->";

/** The page as the server sends it: it knows from the start that it has one, and what the server may do. */
export async function servedPage(file: string, write: boolean): Promise<{ html: string; policy: string }> {
  const html = await readPage(file);
  const served = `<html data-served="${write ? "write" : "read"}"`;
  return {
    html: html.replace(POLICY_PLACE, "").replace("<html", served),
    policy: `${policyOf(html, "'self'")}; frame-ancestors 'none'`,
  };
}

/** The page as a file that stands alone, in two parts: what comes before the session and what comes after it. */
export async function standalonePage(file: string): Promise<[string, string]> {
  const html = await readPage(file);
  const policy = `<meta http-equiv="Content-Security-Policy" content="${policyOf(html, "'none'")}">`;
  const [before = "", after = ""] = html.replace(POLICY_PLACE, policy).split(DATA_PLACE);
  return [before, after];
}

/**
 * Nothing but the page's own script and style, by their digests; pictures only out of the session itself. Text becomes
 * markup in one place, the sanitiser's.
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
