#pragma once
// Output files that appear whole or not at all.

#include "core/base/bytes.hh"
#include "core/base/fd.hh"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace reprise::mutator {

/// Throws Error ("stopped by ...") once a signal has come that is noted (note_signals()): long work
/// stops in an orderly way.
void check_interrupt();

/// The exit status of work on a trace: 1 where reading it ended before its end (`trouble`). Then
/// standard error says so, and what was done with what came before.
int status_of(const std::string& path, const std::string& trouble,
              std::string_view done = "written");

// Where a result goes: a file appears under its own name only once it is whole.

/// Work goes to "PATH.partial"; commit() renames it to PATH; without it the destructor removes it.
/// A symbolic link stays: the file that it leads to is replaced. What is not a regular file (a
/// pipe, a device) is written directly, and so are open files (/dev/stdout, /proc/self/fd/1).
class OutputPath {
public:
    /// Throws UsageError for a folder; `option` is where another name could be given.
    explicit OutputPath(const std::string& path, std::string_view option = "-o");
    ~OutputPath();
    OutputPath(const OutputPath&) = delete;
    OutputPath& operator=(const OutputPath&) = delete;

    /// The name to write to until commit().
    [[nodiscard]] const std::string& working() const { return working_; }

    [[nodiscard]] const std::string& final_path() const { return path_; }

    /// Throws SystemError where the rename fails.
    void commit();

private:
    std::string path_;
    std::string working_;
    bool temporary_ = false;
};

/// Whether two outputs would be the same file.
bool same_output(const std::string& a, const std::string& b);

/// The one-line usage error for an output that cannot be opened, from errno.
[[noreturn]] void throw_unwritable(const std::string& path, int error_number,
                                   std::string_view option = "-o");

/// Unbuffered: what is written is on its way. Destroyed before finish(), it leaves no file behind.
/// Opening throws UsageError, writing throws Error naming the file.
class OutputFile {
public:
    /// "-" is standard output. `option` is the one that names the file, for error messages.
    explicit OutputFile(const std::string& path, std::string_view option = "-o");

    void write(std::string_view bytes);

    /// Closes, and gives the file its name.
    void finish();

    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

private:
    [[noreturn]] void fail(int error_number) const;

    std::string name_;
    std::optional<OutputPath> path_;
    FileDescriptor file_;
    std::uint64_t bytes_ = 0;
};

} // namespace reprise::mutator
