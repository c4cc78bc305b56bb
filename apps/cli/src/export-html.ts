import type { Session } from "@espalier/engine";
import type { ExportOptions } from "@espalier/interop";
import { VIEWER_PAGE } from "./viewer-page.ts";

/** A session as one page that needs nothing but a browser; returns how many entries it holds. */
export async function exportHtml(
  session: Session,
  options: Pick<ExportOptions, "at" | "redact">,
): Promise<Generator<string, number>> {
  const { htmlOf } = await import("@espalier/viewer");
  return htmlOf(session, { ...options, page: VIEWER_PAGE });
}
