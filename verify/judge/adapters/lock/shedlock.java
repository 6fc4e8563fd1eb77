// ShedLock over Jedis, for marketsim judge. Not run here: it needs shedlock-provider-redis-jedis4 and Jedis.
// The lock is held while a callback runs: the callback reads the line that releases it.
import java.time.Duration;
import java.time.Instant;
import java.util.Scanner;
import net.javacrumbs.shedlock.core.DefaultLockingTaskExecutor;
import net.javacrumbs.shedlock.core.LockConfiguration;
import net.javacrumbs.shedlock.core.LockingTaskExecutor;
import net.javacrumbs.shedlock.provider.redis.jedis4.JedisLockProvider;
import redis.clients.jedis.JedisPool;

class Adapter {
    private static final Scanner INPUT = new Scanner(System.in);

    private final LockingTaskExecutor executor = new DefaultLockingTaskExecutor(
            new JedisLockProvider(new JedisPool(System.getenv("REDIS_URL")), "judge"));
    private final Duration lease = Duration.ofMillis(Long.parseLong(System.getenv("LOCK_TTL_MS")));
    private final long retryMs = Long.parseLong(System.getenv("LOCK_RETRY_MS"));

    static void say(String answer) {
        System.out.println(answer.replace('\n', ' ')); // println flushes
    }

    /** Holds the lock until the next line, which is "release". */
    void hold(String name) throws Throwable {
        LockingTaskExecutor.TaskWithResult<Boolean> inside = () -> {
            say("acquired");
            INPUT.nextLine();
            return true;
        };
        while (!executor.executeWithLock(inside, configuration(name)).wasExecuted()) {
            Thread.sleep(retryMs);
        }
        say("done"); // it does not say whether the lock was still its own
    }

    private LockConfiguration configuration(String name) {
        return new LockConfiguration(Instant.now(), System.getenv("KEY_PREFIX") + name, lease, Duration.ZERO);
    }

    void answer(String line) throws Throwable {
        String[] words = line.split(" ");
        switch (words[0]) {
            case "acquire" -> hold(words[1]);
            case "now" -> say(String.valueOf(System.currentTimeMillis()));
            case "can" -> say("no"); // its calls cannot be cancelled
            default -> say("error this is not understood: " + line);
        }
    }

    public static void main(String[] none) throws Throwable {
        Adapter adapter = new Adapter();
        while (INPUT.hasNextLine()) {
            try {
                adapter.answer(INPUT.nextLine());
            } catch (Exception e) {
                say("error " + e);
            }
        }
    }
}
