#include "runtime/weights/safetensors.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "planner/core/text.hpp"

namespace moeplan {
namespace {

constexpr std::size_t kMostTensors = 4'000'000;
constexpr std::string_view kLfsPointer = "version https://git-lfs.github.com/spec/";

class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(const TensorVisitor& visitor) : visitor_(visitor) {}

  HeaderMistake mistake{ErrorCode::invalid_json, "", 0};

  bool null() override { return number(-1); }
  bool boolean(bool) override { return number(-1); }
  bool number_integer(number_integer_t value) override { return number(value); }
  bool number_unsigned(number_unsigned_t value) override {
    return number(value > INT64_MAX ? INT64_MAX : static_cast<i64>(value));
  }
  bool number_float(number_float_t, const string_t&) override { return number(-1); }
  bool binary(binary_t&) override { return true; }
  bool string(string_t& value) override {
    if (depth_ == 2 && section_ == "weight_map") {
      if (visitor_.placed) visitor_.placed(key_, value);
      return count();
    }
    if (depth_ == 2 && key_ == "dtype") dtype_ = value;
    return true;
  }
  bool start_object(std::size_t) override {
    if (++depth_ > 8) return fail(ErrorCode::too_deep, "nested deeper than a header is");
    if (depth_ == 2) {
      dtype_.clear();
      shape_.clear();
      offsets_.clear();
    }
    return true;
  }
  bool end_object() override {
    if (depth_ == 2 && section_ != "__metadata__" && section_ != "weight_map" && !dtype_.empty()) {
      const bool is_placed = offsets_.size() == 2;
      if (visitor_.tensor)
        visitor_.tensor(
            {section_, dtype_, shape_, is_placed ? offsets_[0] : -1, is_placed ? offsets_[1] : -1});
      if (!count()) return false;
    }
    --depth_;
    return true;
  }
  bool key(string_t& value) override {
    (depth_ == 1 ? section_ : key_) = value;
    return true;
  }
  bool start_array(std::size_t) override {
    if (++arrays_ > 4) return fail(ErrorCode::too_deep, "nested deeper than a header is");
    return true;
  }
  bool end_array() override {
    --arrays_;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& exception) override {
    std::string why = exception.what();
    if (const auto colon = why.rfind(": "); colon != std::string::npos) why = why.substr(colon + 2);
    mistake = {ErrorCode::invalid_json, std::move(why), position > 0 ? position - 1 : 0};
    return false;
  }

 private:
  bool number(i64 value) {
    if (depth_ != 2 || arrays_ != 1) return true;
    std::vector<i64>* const values = key_ == "shape" ? &shape_ : key_ == "data_offsets" ? &offsets_ : nullptr;
    if (values && values->size() < kMostDimensions) values->push_back(value < 0 ? -1 : value);
    return true;
  }
  bool count() {
    return ++tensors_ <= kMostTensors || fail(ErrorCode::too_large, "more tensors than a checkpoint has");
  }
  bool fail(ErrorCode code, std::string message) {
    mistake = {code, std::move(message), 0};
    return false;
  }

  const TensorVisitor& visitor_;
  int depth_ = 0, arrays_ = 0;
  std::string section_, key_, dtype_;
  std::vector<i64> shape_, offsets_;
  std::size_t tensors_ = 0;
};

unsigned char* bytes_of(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

Error unreadable(const std::string& path, std::string_view why) {
  return {ErrorCode::unreadable, "", concat("cannot read ", path, ": ", why), "check the path"};
}

}  // namespace

std::optional<HeaderMistake> visit_tensors(std::string_view json, const TensorVisitor& visitor) {
  HeaderReader reader(visitor);
  if (nlohmann::json::sax_parse(json.begin(), json.end(), &reader)) return std::nullopt;
  return std::move(reader.mistake);
}

Result<RangedFile> RangedFile::open(const std::string& path) {
  // A pipe that nobody writes to would be waited for.
  FileDescriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor) return unreadable(path, std::strerror(errno));
  struct stat status {};
  if (::fstat(descriptor.number(), &status) != 0) return unreadable(path, std::strerror(errno));
  if (!S_ISREG(status.st_mode))
    return Error{ErrorCode::unreadable, "",
                 concat(path, S_ISDIR(status.st_mode) ? " is a folder" : " is no regular file"),
                 "give a .safetensors file or its index, model.safetensors.index.json"};
  return RangedFile(path, std::move(descriptor), i64{status.st_size});
}

Status RangedFile::read(i64 offset, std::span<unsigned char> out) const {
  static_assert(sizeof(off_t) == 8, "files behind 4 GiB");
  while (!out.empty()) {
    const ssize_t got = ::pread(descriptor_.number(), out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return unreadable(path_, std::strerror(errno));
    if (got == 0)
      return Error{ErrorCode::unreadable, "", concat("cannot read ", path_, ": it ends before byte ", offset),
                   "is something writing to it?"};
    out = out.subspan(static_cast<std::size_t>(got));
    offset += got;
  }
  return Ok{};
}

Result<std::string> read_header(const RangedFile& file) {
  std::string start(static_cast<std::size_t>(min_of(file.bytes(), std::ssize(kLfsPointer))), '\0');
  if (const Status read = file.read(0, {bytes_of(start), start.size()}); !read) return read.error();
  if (start == kLfsPointer)
    return Error{ErrorCode::invalid_value, "", "a Git LFS pointer in place of the file it stands for",
                 "fetch the file: git lfs pull"};
  if (start.size() < 8)
    return Error{ErrorCode::invalid_value, "", "shorter than a header's length", "is the file whole?"};
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) length = length << 8 | static_cast<unsigned char>(start[i]);
  if (length > std::uint64_t{kMaxHeaderBytes})
    return Error{ErrorCode::too_large, "",
                 concat("a header of ", length, " bytes; at most ", kMaxHeaderBytes, " are read"),
                 "is this a safetensors file?"};
  if (static_cast<i64>(length) > file.bytes() - 8)
    return Error{ErrorCode::invalid_value, "", "the file ends inside its header", "is the file whole?"};
  std::string header(length, '\0');
  if (const Status read = file.read(8, {bytes_of(header), header.size()}); !read) return read.error();
  return header;
}

Result<std::string> read_index(const RangedFile& file) {
  if (file.bytes() > kMaxHeaderBytes)
    return Error{ErrorCode::too_large, "",
                 concat("an index of ", file.bytes(), " bytes; at most ", kMaxHeaderBytes, " are read"),
                 "give model.safetensors.index.json"};
  std::string json(static_cast<std::size_t>(file.bytes()), '\0');
  if (const Status read = file.read(0, {bytes_of(json), json.size()}); !read) return read.error();
  return json;
}

std::optional<std::string> shard_path(std::string_view index_path, std::string_view shard) {
  if (shard.empty() || shard.find('/') != std::string_view::npos ||
      shard.find('\0') != std::string_view::npos)
    return std::nullopt;
  const auto slash = index_path.rfind('/');
  return concat(slash == std::string_view::npos ? "" : index_path.substr(0, slash + 1), shard);
}

}  // namespace moeplan
