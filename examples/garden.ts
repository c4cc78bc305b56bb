// The tool of the example agents.

/** Arguments of the tool. */
export interface Bed {
  bed?: string;
}

export const look = {
  name: "look",
  description: "Says what grows.",
  parameters: { type: "object" as const, properties: { bed: { type: "string" as const } } },
};

export async function run(name: string, { bed = "the garden" }: Bed): Promise<string> {
  if (name !== look.name) throw new Error(`There is no tool ${name}.`);
  return `Ripe pears in ${bed}.`;
}
