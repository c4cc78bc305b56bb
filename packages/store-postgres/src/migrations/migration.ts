/** One step of the tables' history. It is never changed once it was published; what comes after is a step of its own. */
export interface Migration {
  /** From 1, without gaps. */
  number: number;
  name: string;
  /** Statements that may run where they ran before. */
  sql: string;
}
