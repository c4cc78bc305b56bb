import { isRecord, type Usage } from "@espalier/session-tree";
import { NO_COST } from "../import-usage.ts";

type Fields = Record<string, unknown>;

/** What one call of a model was billed. */
export interface Billed {
  usage: Usage;
  /** The response it was billed for, where the file says that. */
  responseId: string | undefined;
}

/** Reads what was billed, each call once: files repeat the same count, and newer ones say it in two ways. */
export class UsageBook {
  #hasRecords = false;
  #lastTotal: number | undefined;

  /** From a `token_usage_record`. */
  readRecord(payload: Fields): Billed | undefined {
    if (!isRecord(payload["usage"])) return undefined;
    this.#hasRecords = true;
    const { response_id } = payload;
    return {
      usage: readUsage(payload["usage"]),
      responseId: typeof response_id === "string" ? response_id : undefined,
    };
  }

  /** From a `token_count` event; undefined when it tells nothing new. */
  readCount({ info }: Fields): Billed | undefined {
    if (this.#hasRecords || !isRecord(info) || !isRecord(info["last_token_usage"])) return undefined;
    const total = isRecord(info["total_token_usage"]) ? info["total_token_usage"]["total_tokens"] : undefined;
    if (typeof total === "number") {
      if (total === this.#lastTotal) return undefined;
      this.#lastTotal = total;
    }
    const usage = readUsage(info["last_token_usage"]);
    return usage.totalTokens ? { usage, responseId: undefined } : undefined;
  }
}

/** The API counts what it read from and wrote to its cache as input too; the session format counts them apart. */
function readUsage(fields: Fields): Usage {
  const count = (field: string): number => {
    const value = fields[field];
    return typeof value === "number" ? value : 0;
  };
  const cacheRead = count("cached_input_tokens");
  const cacheWrite = count("cache_write_input_tokens");
  const input = Math.max(0, count("input_tokens") - cacheRead - cacheWrite);
  const output = count("output_tokens");
  const totalTokens = count("total_tokens") || input + output + cacheRead + cacheWrite;
  return { input, output, cacheRead, cacheWrite, totalTokens, cost: NO_COST };
}
