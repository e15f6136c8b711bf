import { silentLogger } from '../../src/logger.ts';
import { openHouse, SIZE, version } from './house.ts';

/** A process that brings more than there is room for into the directory given, until it is killed. */
const [directory = ''] = process.argv.slice(2);
const house = await openHouse({ directory, limit: 5 * SIZE, logger: silentLogger });
for (let index = 0; ; index += 1) {
  await house.bring(version(index));
  if (house.quota.evictions > 0) console.log('evicting');
}
