import type { ContextMessage } from "@espalier/session-tree";
import { extractiveSummarizer, type SummaryAnswer, type SummaryRequest } from "@espalier/summarizer";
import { assistant, result, user } from "./build-messages.ts";

export const HISTORY_HEADINGS = [
  "## Goal",
  "## Constraints & Preferences",
  "## Progress",
  "### Done",
  "### In Progress",
  "### Blocked",
  "## Key Decisions",
  "## Next Steps",
  "## Critical Context",
];

/** Asks the extractive summarizer; 2,000 tokens unless told. */
export function ask(
  messages: readonly ContextMessage[],
  more: Partial<SummaryRequest> = {},
): Promise<SummaryAnswer> {
  const request: SummaryRequest = {
    purpose: "history",
    instructions: "",
    sections: [],
    messages,
    transcript: "",
    maxOutputTokens: 2_000,
    ...more,
  };
  return extractiveSummarizer().summarize(request);
}

/** The lines below a heading, up to the next one. */
export function section(text: string, heading: string): string {
  const lines = text.split("\n");
  const start = lines.indexOf(heading);
  if (start === -1) return "";
  const end = lines.findIndex((line, index) => index > start && line.startsWith("#"));
  return lines
    .slice(start + 1, end === -1 ? undefined : end)
    .join("\n")
    .trim();
}

let calls = 0;

/** The agent calls one tool and gets its result. */
export function step(
  text: string,
  name: string,
  values: Record<string, unknown>,
  output: string,
  isError = false,
): ContextMessage[] {
  const id = `call-${++calls}`;
  return [
    assistant(text, [{ id, name, arguments: values }]),
    result(id, output, { toolName: name, isError }),
  ];
}

export const edit = (path: string, newText: string, text = "") =>
  step(text, "edit", { path, oldText: "before", newText }, `Replaced text in ${path}.`);

export const run = (command: string, output: string, isError = false) =>
  step("", "bash", { command }, output, isError);

/** A session as a colleague could have had it: two requests, the second one not finished. */
export function invoiceSession(): ContextMessage[] {
  return [
    user(
      "Our invoice export rounds wrongly: 0.125 EUR becomes 0.12. Fix it in src/billing/round-amount.ts. Never use floating point for money, and don't add dependencies.",
    ),
    ...step(
      "I read the rounding first.",
      "read",
      { path: "src/billing/round-amount.ts" },
      "export function roundAmount(value: number): number {\n  return Number(value.toFixed(2));\n}\nexport const MINOR_UNITS = 2;\n",
    ),
    ...edit(
      "src/billing/round-amount.ts",
      "export function roundMinorUnits(amount: bigint): bigint {\n  return amount / 10n;\n}",
      "I decided on bigint minor units instead of a decimal library, because no dependency may be added.",
    ),
    ...run(
      "npm test -- billing",
      "AssertionError: expected 12n to equal 13n\n\nCommand exited with code 1",
      true,
    ),
    ...edit("src/billing/round-amount.ts", "return (amount + 5n) / 10n;"),
    ...run("npm test -- billing 2>&1 | tail -3", "14 passed"),
    assistant(
      "Rounding is half-up now: `roundMinorUnits` in `src/billing/round-amount.ts`, and 14 tests pass.",
    ),
    user("Good. Now write the export as CSV to exports/invoices.csv, separator must be a semicolon"),
    ...step(
      "A new file for the CSV.",
      "write",
      {
        path: "src/export/write-csv.ts",
        content: "export function writeInvoiceCsv(rows: InvoiceRow[]): string {\n}",
      },
      "Wrote 70 bytes to src/export/write-csv.ts",
    ),
    ...run(
      "npm run lint",
      "src/export/write-csv.ts(3,5): error TS2304: Cannot find name 'InvoiceRow'.\n\nCommand exited with code 2",
      true,
    ),
    ...step(
      "The type is missing; next I will import InvoiceRow.",
      "bash",
      { command: "grep -rn InvoiceRow src" },
      "src/billing/types.ts:4:export interface InvoiceRow {",
    ),
  ];
}
