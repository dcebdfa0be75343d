#pragma once
// Files that are whole or not there: content goes to NAME.part first, and the name follows. A full
// disk or a kill leaves what stood under the name before, never half of the new.

#include "core/base/fd.hh"

#include <cstdint>
#include <string>
#include <string_view>

namespace reprise {

/// Writes a file, replacing one of that name. What can be made again need not wait for the disk.
enum class Durable : std::uint8_t { kNo, kYes };
void write_whole(const std::string& path, std::string_view text, Durable durable);

/// Room on the disk for a file that is written at the end, when the disk may be full. Unless it is
/// written, the destructor gives the room back.
class ReservedFile {
public:
    /// Throws SystemError where there is no room.
    ReservedFile(std::string path, std::uint64_t size);
    ~ReservedFile();
    ReservedFile(const ReservedFile&) = delete;
    ReservedFile& operator=(const ReservedFile&) = delete;

    /// Takes room for so many bytes in all, where there is some.
    void grow(std::uint64_t size);

    /// Writes the file into its room and gives it its name; once. Throws SystemError.
    void write(std::string_view text);

private:
    std::string path_;
    std::string part_;
    FileDescriptor file_;
    std::uint64_t size_ = 0;
    bool written_ = false;
};

} // namespace reprise
