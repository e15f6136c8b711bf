import type { ModuleAddress } from './module.ts';
import type { ProviderAddress } from './provider.ts';

/** Whatever can be mirrored. Rules about who may have what, and what is mirrored at all, speak of these. */
export type MirroredAddress = ProviderAddress | ModuleAddress;
