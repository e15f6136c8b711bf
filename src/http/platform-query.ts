import { z } from 'zod';
import { Platform } from '../address/platform.ts';
import { parsed } from './request-schema.ts';

/** There are some forty. */
const MAX_PLATFORMS = 100;

/** Platforms in the body of a request. */
export const platformList = z.array(parsed(Platform.parse)).max(MAX_PLATFORMS);

/** `?platform=linux_amd64`, none, one or repeated: once is a text, more often a list. */
export const platformQuery = z
  .union([z.string(), z.array(z.string())])
  .transform((given) => [given].flat())
  .pipe(platformList)
  .default([]);
