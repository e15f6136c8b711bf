import { z } from 'zod';

/** `tracing:`: where what takes how long is told, and of how many requests. */
export function tracingSchema<E extends z.ZodType, F extends z.ZodType>({ endpoint, flag }: { endpoint: E; flag: F }) {
  return z.strictObject({
    endpoint: endpoint.nullable(),
    sample: fraction,
    propagate: flag,
  });
}

// `${NAME}` makes texts of numbers.
const fraction = z.preprocess(
  (given) => (typeof given === 'string' && /^(?:0|1|[01]?\.\d{1,9})$/.test(given) ? Number(given) : given),
  z.number().refine((value) => value >= 0 && value <= 1, { error: 'must be a number from 0 to 1, such as 0.1' }),
);
