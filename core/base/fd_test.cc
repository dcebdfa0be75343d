#include "core/base/fd.hh"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

namespace reprise {
namespace {

/// A process of another user that has the name until the object's end.
class Holder {
public:
    Holder(const std::string& name, uid_t user) {
        std::array<int, 2> ready{};
        std::array<int, 2> end{};
        EXPECT_EQ(pipe(ready.data()) + pipe(end.data()), 0);
        child_ = fork();
        if (child_ == 0) {
            close(end[1]);
            const bool became = setuid(user) == 0;
            const FileDescriptor held = take_name(name);
            char one = became && held.valid() ? 1 : 0;
            _exit(write(ready[1], &one, 1) == 1 && read(end[0], &one, 1) == 0 ? 0 : 1);
        }
        close(ready[1]);
        close(end[0]);
        end_ = FileDescriptor(end[1]);
        char one = 0;
        EXPECT_EQ(read(ready[0], &one, 1), 1);
        EXPECT_EQ(one, 1);
        close(ready[0]);
    }

    Holder(const Holder&) = delete;
    Holder& operator=(const Holder&) = delete;

    ~Holder() {
        end_.reset();
        waitpid(child_, nullptr, 0);
    }

private:
    pid_t child_ = -1;
    FileDescriptor end_;
};

TEST(NameLock, OneProcessHasAName) {
    const std::string name = "reprise-test-" + std::to_string(getpid());
    FileDescriptor first = take_name(name);
    EXPECT_TRUE(first.valid());
    EXPECT_FALSE(take_name(name).valid());
    EXPECT_TRUE(take_name(name + "-other").valid());
    first.reset();
    EXPECT_TRUE(take_name(name).valid());
}

TEST(NameLock, AnotherUserKeepsNobodyFromStarting) {
    if (geteuid() != 0) {
        GTEST_SKIP() << "becoming another user takes root";
    }
    constexpr uid_t kNobody = 65534;
    constexpr uid_t kStranger = 12345;
    const std::string name = "reprise-test-" + std::to_string(getpid());
    {
        const Holder holder(name, kNobody);
        EXPECT_FALSE(take_name(name).valid());
    }
    const Holder holder(name, kStranger);
    EXPECT_TRUE(take_name(name).valid());
}

} // namespace
} // namespace reprise
