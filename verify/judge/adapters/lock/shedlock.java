// ShedLock over Jedis, for marketsim judge. Not run here: it needs shedlock-provider-redis-jedis4 and Jedis. The lock is
// held while a callback runs: the callback reads the line that releases it.
import java.time.Duration;
import java.time.Instant;
import java.util.Scanner;
import net.javacrumbs.shedlock.core.DefaultLockingTaskExecutor;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockingTaskExecutor;
import net.javacrumbs.shedlock.provider.redis.jedis4.JedisLockProvider;
import redis.clients.jedis.JedisPool;

class Adapter {
    static void say(String answer) {
        System.out.println(answer.replace('\n', ' '));
        System.out.flush();
    }

    public static void main(String[] none) throws Throwable {
        var locks = new JedisLockProvider(new JedisPool(System.getenv("REDIS_URL")), "judge");
        var executor = new DefaultLockingTaskExecutor(locks);
        var lease = Duration.ofMillis(Long.parseLong(System.getenv("LOCK_TTL_MS")));
        long between = Long.parseLong(System.getenv("LOCK_RETRY_MS"));
        for (Scanner in = new Scanner(System.in); in.hasNextLine(); ) {
            String name = System.getenv("KEY_PREFIX") + in.nextLine().split(" ")[1];
            LockingTaskExecutor.TaskWithResult<Boolean> inside = () -> {
                say("acquired");
                in.nextLine(); // release
                return true;
            };
            try {
                while (!executor.executeWithLock(inside, new LockConfiguration(Instant.now(), name, lease, Duration.ZERO)).wasExecuted()) {
                    Thread.sleep(between);
                }
                say("done"); // it does not say whether the lock was still its own
            } catch (Exception e) {
                say("error " + e);
            }
        }
    }
}
