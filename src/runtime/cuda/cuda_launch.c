/* cuda_launch.c: one launch; tensor maps. Nothing here allocates, waits or locks. */
#include "runtime/cuda/cuda_driver.h"
#include "target/maps/clip.h"

static int launch_with_attributes(CudaState *s, const DeviceLaunch *l) {
  const DeviceCode *code = l->code;
  CudaLaunchAttribute attrs[2];
  CudaLaunchConfig c = {.shared = code->shared, .stream = l->stream, .attrs = attrs};
  if (!s->f.launch_ex) return GPU_NOT_THERE;
  for (int i = 0; i < 3; i++) c.grid[i] = l->grid[i], c.block[i] = code->block[i];
  if (l->overlap)
    attrs[c.nattrs++] = (CudaLaunchAttribute){.id = CUDA_LAUNCH_OVERLAP, .value.on = 1};
  if (code->together)
    attrs[c.nattrs++] = (CudaLaunchAttribute){.id = CUDA_LAUNCH_TOGETHER, .value.on = 1};
  return s->f.launch_ex(&c, code->function, l->args, NULL);
}

static int launch_here(CudaState *s, const DeviceLaunch *l) {
  const DeviceCode *c = l->code;
  if (WV_UNLIKELY(l->overlap || c->together)) return launch_with_attributes(s, l);
  return s->f.launch(c->function, l->grid[0], l->grid[1], l->grid[2], c->block[0], c->block[1],
                     c->block[2], c->shared, l->stream, l->args, NULL);
}

/* The context is nearly always current already. If it is not, the driver returns an error, since
 * the function belongs to its context; nothing has run then. */
int cuda_launch(Device *d, const DeviceLaunch *l) {
  CudaState *s = cuda_state(gpu_of(d));
  GpuEntry e;
  int error = launch_here(s, l);
  if (error != GPU_BAD_CONTEXT && error != GPU_BAD_HANDLE) return error;
  if (cuda_make_current(&s->gpu, l->code->device, &e) != GPU_OK || !e.changed) return error;
  error = launch_here(s, l);
  gpu_leave(&s->gpu, e);
  return error;
}

/* ---- tensor maps ---- */

static int swizzle_number(int bytes) {
  return bytes == 128 ? 3 : bytes == 64 ? 2 : bytes == 32 ? 1 : 0;
}

/* The dims from `first` on become one, which steps like the innermost of them that has several elements. */
static bool join_dims(int first, int rank, uint64_t *size, uint64_t *stride) {
  for (int i = first + 1; i < rank; i++) {
    if (size[first] == 1) stride[first] = stride[i];
    size[first] *= size[i], size[i] = 1;
    if (size[first] > INT32_MAX) return false;
  }
  return true;
}

/* How much a miss brings to the L2 cache. A tile reads the whole of a short row, such as a head of attention, but 128
 * bytes at a time of a long one; more then takes bandwidth of the cache, above all from rows that begin anywhere in a
 * line (H200: a product of 1000^3 takes 8.04 instead of 8.55 us, one of 16 rows 3 % less; attention 0.5 % more, which
 * has short rows). */
static int promotion_number(const ArtMap *m, uint64_t row) {
  enum { L2_128_BYTES = 2, L2_256_BYTES = 3, SHORT_ROW = 512 };
  bool is_short = !m->im2col && row * (uint64_t)m->bytes <= SHORT_ROW;
  return is_short ? L2_256_BYTES : L2_128_BYTES;
}

/* For a dim with one element any stride is valid, but the driver accepts only some. Nothing is
 * copied from an empty tensor; coordinates are signed 32-bit integers. */
static int encode_here(CudaState *s, const ArtMap *m, void *map, void *address,
                       const int64_t *sizes, const int64_t *strides) {
  enum { RANK = 5, ANY_STRIDE = 16 };
  uint64_t size[RANK], stride[RANK];
  uint32_t box[RANK], step[RANK];
  for (int i = 0; i < m->rank; i++) {
    int64_t n = sizes[m->dim[i]], by = strides[m->dim[i]] * m->bytes;
    if (n > INT32_MAX) return GPU_INVALID;
    size[i] = n > 1 ? (uint64_t)n : 1;
    stride[i] = n > 1 ? (uint64_t)by : ANY_STRIDE;
    box[i] = (uint32_t)m->box[i];
    step[i] = m->im2col ? (uint32_t)m->step[i] : 1;
  }
  if (m->joined && !join_dims(m->joined, m->rank, size, stride)) return GPU_INVALID;
  if (m->clip) {
    const int above = m->rank - 2, back = m->rank - 1;
    size[m->clip] = CLIP_ROWS, size[above] = size[back] = INT32_MAX;
    stride[back] = clip_back(stride[m->clip]);
  }
  int promotion = promotion_number(m, size[0]);
  /* Corners are for the dims between the channels and the image. */
  if (m->im2col)
    return s->f.map_im2col(map, m->element, (uint32_t)m->rank, address, size, stride + 1,
                           m->lowest + 1, m->highest + 1, box[0], box[1], step, 0,
                           swizzle_number(m->swizzle), promotion, 0);
  /* The innermost dim has no stride of its own. */
  return s->f.map_encode(map, m->element, (uint32_t)m->rank, address, size, stride + 1, box, step,
                         0, swizzle_number(m->swizzle), promotion, 0);
}

/* Encoding needs a context, like launching. */
int cuda_encode(Device *d, int index, const ArtMap *m, void *map, void *address,
                const int64_t *sizes, const int64_t *strides, bool changed) {
  CudaState *s = cuda_state(gpu_of(d));
  GpuEntry e;
  bool moves = !changed && s->f.map_move;
  if (!moves && !(m->im2col ? s->f.map_im2col != NULL : s->f.map_encode != NULL))
    return GPU_NOT_THERE;
  int error = moves ? s->f.map_move(map, address) : encode_here(s, m, map, address, sizes, strides);
  if (error != GPU_BAD_CONTEXT || cuda_make_current(&s->gpu, index, &e) != GPU_OK) return error;
  error = moves ? s->f.map_move(map, address) : encode_here(s, m, map, address, sizes, strides);
  gpu_leave(&s->gpu, e);
  return error;
}
