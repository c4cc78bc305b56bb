/** Where policies say what went wrong without stopping anything; `console` is one, and writes to stderr. */
export interface PolicyLog {
  /** Something is tried again, or done without. */
  warn(message: string, details?: { error: unknown }): void;
  /** Something was given up. */
  error(message: string, details?: { error: unknown }): void;
}
