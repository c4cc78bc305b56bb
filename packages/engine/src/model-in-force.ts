import type { SessionTree } from "@espalier/session-tree";

/** The model at the leaf, as settings name it: `provider/id`; undefined where none has answered or been chosen. */
export function modelInForce({ context: { model } }: Pick<SessionTree, "context">): string | undefined {
  return model ? `${model.provider}/${model.modelId}` : undefined;
}
