import type { RequestFormat } from "@espalier/session-tree";
import { Cargo, type CargoRules } from "./cargo.ts";

/** A format that gives its provider back what only that one can say; `unload` puts it into a rendered request. */
export function carryingFormat<Request>(
  base: RequestFormat<Request>,
  rules: CargoRules,
  unload: (request: Request, cargo: Cargo) => Request,
): RequestFormat<Request> {
  return {
    ...base,
    carry(context, model) {
      const cargo = new Cargo({ context, model }, rules);
      return { context: cargo.context, restore: (request) => unload(request, cargo) };
    },
  };
}
