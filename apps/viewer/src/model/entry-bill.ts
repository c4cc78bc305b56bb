import { addBill, nothingBilled, type UsageTotals } from "@espalier/engine/reading";
import type { Entry, Usage } from "@espalier/session-tree";

/** What a provider billed for an entry, whatever its kind and whoever wrote it; undefined where nothing says so. */
export function billOf(entry: Entry): UsageTotals | undefined {
  const { usage, message: said } = entry as { usage?: unknown; message?: { usage?: unknown } | null };
  const found = usage ?? said?.usage;
  if (typeof found !== "object" || found === null) return undefined;
  const bill = nothingBilled();
  addBill(bill, found as Usage);
  return bill;
}
