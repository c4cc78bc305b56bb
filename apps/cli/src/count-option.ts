import { InvalidArgumentError } from "commander";

/** A number of things, at least one. */
export function parseCount(text: string): number {
  const count = Number(text);
  if (Number.isInteger(count) && count > 0) return count;
  throw new InvalidArgumentError("It is a whole number above 0: 20.");
}
