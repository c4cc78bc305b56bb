/** Where policies say what went wrong without stopping anything; `console` is one, and writes to stderr. */
export interface PolicyLog {
  warn(message: string, details?: { error: unknown }): void;
  error(message: string, details?: { error: unknown }): void;
}
