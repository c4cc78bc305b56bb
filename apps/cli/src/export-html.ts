import type { Session } from "@espalier/engine";
import type { ExportOptions } from "@espalier/interop";
import { CommandError } from "./failure.ts";

/** A session as one page that needs nothing but a browser; returns how many entries it holds. */
export async function exportHtml(
  _session: Session,
  _options: Pick<ExportOptions, "at" | "redact">,
): Promise<Generator<string, number>> {
  throw new CommandError("usage", "This program was built without the page; use --format markdown.");
}
